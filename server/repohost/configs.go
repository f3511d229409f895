package repohost

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/duration"
	"github.com/boughdb/bough/server/fault"
)

// Nullable is a change of something that may be taken away. Without Set it stays as it is.
type Nullable struct {
	Set   bool
	Value *string
}

// Change is a change of a configuration; nil leaves a thing as it is, or gives it its default at creation.
type Change struct {
	Repository        string
	Provider          Nullable
	WebhookSecret     Nullable
	AutoCreateOnPR    *bool
	AutoDeleteOnMerge *bool
	AutoDeleteOnClose *bool
	CloseGrace        *string
	ResetOnPush       *bool
	Mode              *db.DataCloneMode
	Type              *db.BranchType
	BaseBranches      *[]string
	IgnoreDrafts      *bool
	AllowForks        *bool
	MaxBranches       *int32
	ExpiresIn         Nullable
	APIURL            Nullable
	APIToken          Nullable
}

const (
	maxRepository = 200
	// rotation is how long the secret of before a change is still accepted.
	rotation = 24 * time.Hour
	// Defaults of a new configuration.
	defaultGrace       = "24h"
	defaultExpiry      = "30d"
	defaultMaxBranches = 20
)

// List returns a page of the configurations, and how many there are in all.
func (s *Service) List(ctx context.Context, p *auth.Principal, limit, offset int32) ([]Config, int64, error) {
	if err := s.mayManage(p); err != nil {
		return nil, 0, err
	}
	q := db.New(s.pool)
	configs, err := q.ListRepohostConfigs(ctx, db.ListRepohostConfigsParams{MaxRows: limit, SkipRows: offset})
	if err != nil {
		return nil, 0, fmt.Errorf("listing configurations of repositories: %w", err)
	}
	total, err := q.CountRepohostConfigs(ctx)
	return configs, total, err
}

// Get returns the configuration of a repository.
func (s *Service) Get(ctx context.Context, p *auth.Principal, repository string) (Config, error) {
	if err := s.mayManage(p); err != nil {
		return Config{}, err
	}
	cfg, err := db.New(s.pool).FindRepohostConfig(ctx, repository)
	if none(err) {
		return Config{}, ErrNotFound.Msgf("there is no configuration for the repository %q", repository)
	}
	return cfg, err
}

// Put makes or changes the configuration of a repository; created tells which.
func (s *Service) Put(ctx context.Context, p *auth.Principal, change Change) (cfg Config, created bool, err error) {
	if err := s.mayManage(p); err != nil {
		return Config{}, false, err
	}
	if err := checkRepository(change.Repository); err != nil {
		return Config{}, false, err
	}
	for try := 1; ; try++ {
		err = s.inTx(ctx, func(tx pgx.Tx, q *db.Queries) error {
			old, err := q.LockRepohostConfig(ctx, change.Repository)
			switch {
			case none(err):
				created = true
				cfg, err = s.insert(ctx, q, change)
				return err
			case err != nil:
				return fmt.Errorf("reading the configuration of a repository: %w", err)
			}
			created = false
			cfg, err = s.update(ctx, tx, old, change)
			return err
		})
		var pgErr *pgconn.PgError
		if try == 1 && errors.As(err, &pgErr) && pgErr.ConstraintName == "repohost_configs_repository_key" {
			continue // somebody else made it this moment
		}
		return cfg, created, err
	}
}

func (s *Service) insert(ctx context.Context, q *db.Queries, change Change) (Config, error) {
	expiry := defaultExpiry
	if d, err := duration.Parse(expiry); err != nil || d > s.branches.MaxExpiry() {
		expiry = duration.Format(s.branches.MaxExpiry())
	}
	grace := defaultGrace
	if d, err := duration.Parse(grace); err != nil || d > s.branches.MaxExpiry() {
		grace = expiry
	}
	cfg := Config{
		ID: newID(), Repository: change.Repository, AutoCreateOnPR: true, AutoDeleteOnMerge: true, AutoDeleteOnClose: true, CloseGrace: grace,
		DefaultDataCloneMode: db.DataCloneModeSchemaOnly, DefaultBranchType: db.BranchTypePreview, BaseBranches: []string{},
		MaxBranches: defaultMaxBranches, ExpiresIn: &expiry,
	}
	if err := s.merge(&cfg, change); err != nil {
		return Config{}, err
	}
	cfg, err := q.InsertRepohostConfig(ctx, db.InsertRepohostConfigParams{
		ID: cfg.ID, Repository: cfg.Repository, Provider: cfg.Provider, WebhookSecret: cfg.WebhookSecret, AutoCreateOnPR: cfg.AutoCreateOnPR,
		AutoDeleteOnMerge: cfg.AutoDeleteOnMerge, AutoDeleteOnClose: cfg.AutoDeleteOnClose, CloseGrace: cfg.CloseGrace,
		ResetOnPush: cfg.ResetOnPush, DefaultDataCloneMode: cfg.DefaultDataCloneMode, DefaultBranchType: cfg.DefaultBranchType,
		BaseBranches: cfg.BaseBranches, IgnoreDrafts: cfg.IgnoreDrafts, AllowForks: cfg.AllowForks, MaxBranches: cfg.MaxBranches,
		ExpiresIn: cfg.ExpiresIn, APIURL: cfg.APIURL, APIToken: cfg.APIToken,
	})
	if err != nil {
		return Config{}, fmt.Errorf("inserting the configuration of a repository: %w", err)
	}
	return cfg, nil
}

func (s *Service) update(ctx context.Context, tx pgx.Tx, cfg Config, change Change) (Config, error) {
	if err := s.merge(&cfg, change); err != nil {
		return Config{}, err
	}
	q := db.New(tx)
	cfg, err := q.UpdateRepohostConfig(ctx, db.UpdateRepohostConfigParams{
		ID: cfg.ID, Repository: change.Repository, Provider: cfg.Provider, WebhookSecret: cfg.WebhookSecret,
		PreviousSecret: cfg.PreviousSecret, PreviousSecretUntil: cfg.PreviousSecretUntil, AutoCreateOnPR: cfg.AutoCreateOnPR,
		AutoDeleteOnMerge: cfg.AutoDeleteOnMerge, AutoDeleteOnClose: cfg.AutoDeleteOnClose, CloseGrace: cfg.CloseGrace,
		ResetOnPush: cfg.ResetOnPush, DefaultDataCloneMode: cfg.DefaultDataCloneMode, DefaultBranchType: cfg.DefaultBranchType,
		BaseBranches: cfg.BaseBranches, IgnoreDrafts: cfg.IgnoreDrafts, AllowForks: cfg.AllowForks, MaxBranches: cfg.MaxBranches,
		ExpiresIn: cfg.ExpiresIn, APIURL: cfg.APIURL, APIToken: cfg.APIToken, LastReportError: cfg.LastReportError,
	})
	if err != nil {
		return Config{}, fmt.Errorf("updating the configuration of a repository: %w", err)
	}
	// Pull requests that could have no branch may have one now.
	ids, err := q.AskAgain(ctx, &cfg.ID)
	if err != nil {
		return Config{}, err
	}
	for _, id := range ids {
		if err := s.enqueue(ctx, tx, id); err != nil {
			return Config{}, err
		}
	}
	return cfg, nil
}

// Delete removes the configuration of a repository. Its branches stay.
func (s *Service) Delete(ctx context.Context, p *auth.Principal, repository string) error {
	if err := s.mayManage(p); err != nil {
		return err
	}
	n, err := db.New(s.pool).DeleteRepohostConfig(ctx, repository)
	if err != nil {
		return fmt.Errorf("deleting the configuration of a repository: %w", err)
	}
	if n == 0 {
		return ErrNotFound.Msgf("there is no configuration for the repository %q", repository)
	}
	return nil
}

// Deliveries returns a page of the deliveries, newest first, and how many match in all.
func (s *Service) Deliveries(ctx context.Context, p *auth.Principal, params db.ListRepohostDeliveriesParams) ([]db.ListRepohostDeliveriesRow, int64, error) {
	if err := s.mayManage(p); err != nil {
		return nil, 0, err
	}
	q := db.New(s.pool)
	rows, err := q.ListRepohostDeliveries(ctx, params)
	if err != nil {
		return nil, 0, fmt.Errorf("listing deliveries: %w", err)
	}
	total, err := q.CountRepohostDeliveries(ctx, db.CountRepohostDeliveriesParams{Repository: params.Repository, Status: params.Status})
	return rows, total, err
}

// merge puts the changes over a configuration, and checks what comes out.
func (s *Service) merge(cfg *Config, change Change) error {
	set(&cfg.AutoCreateOnPR, change.AutoCreateOnPR)
	set(&cfg.AutoDeleteOnMerge, change.AutoDeleteOnMerge)
	set(&cfg.AutoDeleteOnClose, change.AutoDeleteOnClose)
	set(&cfg.CloseGrace, change.CloseGrace)
	set(&cfg.ResetOnPush, change.ResetOnPush)
	set(&cfg.DefaultDataCloneMode, change.Mode)
	set(&cfg.DefaultBranchType, change.Type)
	set(&cfg.BaseBranches, change.BaseBranches)
	set(&cfg.IgnoreDrafts, change.IgnoreDrafts)
	set(&cfg.AllowForks, change.AllowForks)
	set(&cfg.MaxBranches, change.MaxBranches)
	if change.ExpiresIn.Set {
		cfg.ExpiresIn = change.ExpiresIn.Value
	}
	if change.CloseGrace != nil && !isZero(*change.CloseGrace) {
		if err := s.checkDuration("close_grace", *change.CloseGrace); err != nil {
			return err
		}
	}
	if change.ExpiresIn.Value != nil {
		if err := s.checkDuration("expires_in", *change.ExpiresIn.Value); err != nil {
			return err
		}
	}
	if change.Mode != nil && *change.Mode == db.DataCloneModeSeedData && !s.branches.SeedsConfigured() {
		return fault.Field("default_data_clone_mode", "seed_data needs the setting branching.seed_path on the server")
	}
	for _, pattern := range cfg.BaseBranches {
		if clean(pattern) != pattern {
			return fault.Field("base_branches", "must not contain control characters")
		}
	}
	if err := s.mergeSecret(cfg, change.WebhookSecret); err != nil {
		return err
	}
	return s.mergeAPI(cfg, change)
}

func set[T any](field *T, to *T) {
	if to != nil {
		*field = *to
	}
}

// isZero reports whether a grace is none at all, which is no duration as others are.
func isZero(grace string) bool { return grace == "0" || grace == "0s" }

func (s *Service) checkDuration(field, text string) error {
	d, err := duration.Parse(text)
	if err != nil {
		return fault.Field(field, "is no duration: %s", err)
	}
	if most := s.branches.MaxExpiry(); d > most {
		return fault.Field(field, "must be at most %s, the longest that branches live on this server", duration.Format(most))
	}
	return nil
}

// mergeSecret changes the webhook's secret. The one of before goes on for a while, unless there is to be none.
func (s *Service) mergeSecret(cfg *Config, change Nullable) error {
	switch {
	case !change.Set:
		return nil
	case change.Value == nil:
		cfg.WebhookSecret, cfg.PreviousSecret, cfg.PreviousSecretUntil = nil, nil, nil
		return nil
	}
	secret := *change.Value
	if err := checkSecret("webhook_secret", secret); err != nil {
		return err
	}
	if _, ok := signingKey(secret); !ok {
		return fault.Field("webhook_secret", "begins with %s but is not base64 after it, as a signing token is", signingTokenPrefix)
	}
	if cfg.WebhookSecret != nil {
		present, err := s.vault.Open(cfg.WebhookSecret, secretName(cfg.ID))
		switch {
		case err == nil && present == secret:
			return nil
		case err == nil:
			until := time.Now().Add(rotation).UTC()
			cfg.PreviousSecret, cfg.PreviousSecretUntil = cfg.WebhookSecret, &until
		}
	}
	sealed, err := s.vault.Seal(secret, secretName(cfg.ID))
	cfg.WebhookSecret = sealed
	return err
}

// mergeAPI changes where and with which token reports are made.
func (s *Service) mergeAPI(cfg *Config, change Change) error {
	before := apiBase(*cfg)
	if change.Provider.Set {
		cfg.Provider = (*Provider)(change.Provider.Value)
	}
	if change.APIURL.Set {
		cfg.APIURL = nil
		if change.APIURL.Value != nil {
			base, err := s.checkAPIURL(*change.APIURL.Value)
			if err != nil {
				return err
			}
			cfg.APIURL = &base
		}
	}
	base := apiBase(*cfg)
	switch token := change.APIToken; {
	case token.Set && token.Value == nil:
		cfg.APIToken = nil
	case token.Set:
		if err := checkSecret("api_token", *token.Value); err != nil {
			return err
		}
		if base == "" {
			return fault.Field("api_token", "needs api_url, or the provider github or gitlab, to know where to report to")
		}
		sealed, err := s.vault.Seal(*token.Value, tokenName(cfg.ID))
		if err != nil {
			return err
		}
		cfg.APIToken = sealed
	case cfg.APIToken != nil && base != before:
		return fault.Field("api_token", "must be sent again when the API is at another address (%s, not %s); null takes it away", orNone(base), orNone(before))
	}
	if change.APIToken.Set || change.APIURL.Set || change.Provider.Set {
		cfg.LastReportError = nil
	}
	return nil
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// repositoryForm is the contract's, which also says how long a name may be.
var repositoryForm = regexp.MustCompile(`^[A-Za-z0-9_.\-]+(/[A-Za-z0-9_.\-]+)+$`)

// checkRepository refuses names that could not be put into the path of a request.
func checkRepository(name string) error {
	if !repositoryForm.MatchString(name) || len(name) > maxRepository {
		return fault.Field("repository", "must have the form owner/repo")
	}
	for _, part := range strings.Split(name, "/") {
		if part == "." || part == ".." {
			return fault.Field("repository", "must have the form owner/repo")
		}
	}
	return nil
}

// checkSecret refuses what was not meant to be in a secret, such as the line end of the file it was read from.
func checkSecret(field, secret string) error {
	if strings.TrimSpace(secret) != secret || clean(secret) != secret {
		return fault.Field(field, "must not begin or end with white space, nor contain control characters")
	}
	return nil
}

func (s *Service) checkAPIURL(text string) (string, error) {
	if problem := s.targets.CheckURL(text); problem != "" {
		return "", fault.Field("api_url", "%s", problem)
	}
	if strings.Contains(text, "?") {
		return "", fault.Field("api_url", "must not have a query (?): paths of the API are added to it")
	}
	return strings.TrimRight(text, "/"), nil
}

// WebhookPath is where a configuration's own deliveries go.
func WebhookPath(id uuid.UUID) string { return "/api/v1/webhooks/repohost/" + id.String() }

// Ensure encrypts secrets anew that were stored before there was the present key, and tells of ones that no key opens.
func (s *Service) Ensure(ctx context.Context) error {
	return s.inTx(ctx, func(_ pgx.Tx, q *db.Queries) error {
		rows, err := q.ListRepohostSecrets(ctx)
		if err != nil {
			return fmt.Errorf("reading the secrets of repositories: %w", err)
		}
		for _, row := range rows {
			changed := false
			for _, secret := range []struct {
				sealed *[]byte
				name   string
			}{{&row.WebhookSecret, secretName(row.ID)}, {&row.PreviousSecret, secretName(row.ID)}, {&row.APIToken, tokenName(row.ID)}} {
				sealed, err := s.vault.Renew(*secret.sealed, secret.name)
				switch {
				case errors.Is(err, auth.ErrSealed):
					s.log.Error("a secret of a repository's configuration cannot be read; set it again", "config", row.ID, "secret", secret.name, "error", err)
				case err != nil:
					return err
				case sealed != nil:
					*secret.sealed, changed = sealed, true
				}
			}
			if !changed {
				continue
			}
			err := q.SetRepohostSecrets(ctx, db.SetRepohostSecretsParams{
				ID: row.ID, WebhookSecret: row.WebhookSecret, PreviousSecret: row.PreviousSecret, APIToken: row.APIToken,
			})
			if err != nil {
				return fmt.Errorf("storing secrets anew: %w", err)
			}
		}
		return nil
	})
}
