package postgres

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/server/pgcopy"
)

// A schema image is a hidden database with the schema of a branch's database and no rows. PostgreSQL copies it for each
// schema-only branch, without touching the source. It is made once for each version of the source's schema. At most one
// exists for a source, and only who holds the source's lock (see CloneRequest.SourceBranch) makes or drops it.

const (
	imageKind   = "image"
	imagePrefix = "bough_image_"
	// For so long requests to the source may be held for an image where pg_dump would hold nobody.
	imagePause = 500 * time.Millisecond
)

// CopierTemplate is CloneResult.Copier of images made by CREATE DATABASE … TEMPLATE and truncation.
const CopierTemplate = "template"

// ImageName is the name of the schema image of a branch's database. Ids begin with a time, and end with what is random.
func ImageName(branch uuid.UUID) string {
	id := hex.EncodeToString(branch[:])
	return imagePrefix + id[len(id)-12:]
}

// IsImageName reports whether Bough gives such names to schema images.
func IsImageName(name string) bool {
	id, found := strings.CutPrefix(name, imagePrefix)
	_, err := hex.DecodeString(id)
	return found && err == nil && len(id) == 12 && id == strings.ToLower(id)
}

// DropImage drops the schema image of a branch's database, if there is one.
func (c *Cluster) DropImage(ctx context.Context, branch uuid.UUID) error {
	name := ImageName(branch)
	d, err := c.Lookup(ctx, name)
	if err != nil || d == nil {
		return err
	}
	if d.Foreign || d.Marked && d.Marker.Kind != imageKind {
		return nil // not this installation's, or no image
	}
	return c.Drop(ctx, name, "")
}

// SweepImages drops the schema images of branches that are not live. It asks after it has listed the images, so that one
// of a new branch is safe.
func (c *Cluster) SweepImages(ctx context.Context, live func(branch uuid.UUID) (bool, error)) error {
	found, err := c.databases(ctx, "shobj_description(d.oid, 'pg_database') like $1", markerPrefix+"%")
	if err != nil {
		return err
	}
	var errs []error
	for _, d := range found {
		if !d.Marked || d.Marker.Kind != imageKind || d.Name != ImageName(d.Marker.Branch) {
			continue
		}
		if ok, err := live(d.Marker.Branch); ok || err != nil {
			errs = append(errs, err)
			continue
		}
		c.cfg.Log.Info("dropping the schema image of a branch that is gone", "database", d.Name)
		errs = append(errs, c.Drop(ctx, d.Name, ""))
	}
	return errors.Join(errs...)
}

// image is a schema image that is complete.
type image struct {
	name   string
	marker Marker
	files  int64
}

// survey is what has to be known of a source before its schema is copied.
type survey struct {
	version string
	files   int64
}

func (c *Cluster) survey(ctx context.Context, r CloneRequest) (s survey, err error) {
	err = c.within(ctx, r.Source, r.op(), func(conn *pgx.Conn) error {
		if err := prepareSession(ctx, conn); err != nil {
			return err
		}
		if s.version, err = schemaVersion(ctx, conn); err != nil {
			return err
		}
		s.files, err = countFiles(ctx, conn)
		return err
	})
	return s, err
}

// cloneImage makes Target a copy of the image of Source's schema.
func (c *Cluster) cloneImage(ctx context.Context, conn *pgx.Conn, r CloneRequest, src source, res *CloneResult) error {
	if r.SourceBranch == uuid.Nil {
		r.SourceBranch = uuid.NewSHA1(c.cfg.Installation, []byte(r.Source))
	}
	for try := 0; ; try++ {
		img, err := c.schemaImage(ctx, conn, r, src, res)
		if err != nil {
			return err
		}
		r.Progress("cloning")
		err = c.copyImage(ctx, conn, r, src, img, res)
		if err == nil {
			break
		}
		if try > 0 || !res.Reused || hopeless(ctx, err) {
			return err
		}
		// Somebody has changed it, or the operating system's collations have changed since it was made.
		c.cfg.Log.Warn("the schema image cannot be copied; it is made again", "image", img.name, "error", err)
		if err := c.drop(ctx, conn, img.name); err != nil {
			return err
		}
	}
	warnings, err := c.claim(ctx, conn, r, src, Marker{Installation: c.cfg.Installation, Branch: r.Branch, Generation: r.Generation})
	res.Warnings = append(res.Warnings, warnings...)
	res.Strategy = StrategyImage
	return err
}

// copyImage makes Target a copy of an image, which nobody is connected to.
func (c *Cluster) copyImage(ctx context.Context, conn *pgx.Conn, r CloneRequest, src source, img image, res *CloneResult) error {
	e := extent{files: img.files}
	if err := conn.QueryRow(ctx, "select pg_database_size($1::name)", img.name).Scan(&e.bytes); err != nil {
		return err
	}
	res.Size = e.bytes
	strategy := c.templateStrategy(e)
	statement, err := c.templateStatement(ctx, conn, img.name, r.Target, src, strategy)
	if err != nil {
		return err
	}
	if err := c.requireRoom(ctx, conn, strategy, e.bytes); err != nil {
		return err
	}
	began := time.Now()
	if _, err := conn.Exec(ctx, statement); err != nil {
		return fmt.Errorf("creating database %q: %w", r.Target, err)
	}
	c.measure(strategy, e, time.Since(began))
	return nil
}

// schemaImage returns the image of the source's schema as it is now, and makes it where there is none.
func (c *Cluster) schemaImage(ctx context.Context, conn *pgx.Conn, r CloneRequest, src source, res *CloneResult) (image, error) {
	img := image{name: ImageName(r.SourceBranch)}
	now, err := c.survey(ctx, r)
	if err != nil {
		return img, fmt.Errorf("looking at the schema of database %q: %w", r.Source, err)
	}
	img.files = now.files
	d, err := c.Lookup(ctx, img.name)
	if err != nil {
		return img, err
	}
	switch {
	case d == nil:
	case d.Foreign || d.Marked && (d.Marker.Kind != imageKind || d.Marker.Branch != r.SourceBranch):
		return img, fmt.Errorf("database %q exists and is not the schema image of branch %s", img.name, r.SourceBranch)
	case d.Marked && d.Marker.Complete && !d.Invalid && d.Marker.Version == now.version:
		img.marker = d.Marker
		res.Reused, res.Copier = true, d.Marker.Copier
		res.Warnings = append(res.Warnings, img.marker.warnings()...)
		return img, nil
	}
	r.Progress("making_schema_image")
	if err := c.drop(ctx, conn, img.name); err != nil {
		return img, err
	}
	b := &imageBuild{
		Cluster: c, conn: conn, request: r, source: src, name: img.name, survey: now,
		marker: Marker{Installation: c.cfg.Installation, Kind: imageKind, Branch: r.SourceBranch},
	}
	if err := b.build(ctx); err != nil {
		err = fmt.Errorf("making the schema image of database %q: %w", r.Source, err)
		// What is half-made would be dropped by the next try, which may never come.
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if dropErr := c.Drop(cleanup, img.name, ""); dropErr != nil {
			c.cfg.Log.Warn("dropping an unfinished schema image; the next one replaces it", "image", img.name, "error", dropErr)
		}
		return img, err
	}
	img.marker = b.marker
	res.Reused, res.Copier, res.Pause = false, b.marker.Copier, b.pause
	res.Warnings = append(res.Warnings, img.marker.warnings()...)
	return img, nil
}

// imageBuild is one image being made.
type imageBuild struct {
	*Cluster
	conn    *pgx.Conn
	request CloneRequest
	source  source
	name    string
	survey  survey
	marker  Marker
	pause   time.Duration
	// reasons say why the template way was not taken.
	reasons []string
}

// build makes the image in the first of the ways that works.
func (b *imageBuild) build(ctx context.Context) error {
	quick, late, err := b.templateWay(ctx)
	if err != nil {
		return err
	}
	if quick {
		if err := b.byTemplate(ctx); err == nil || hopeless(ctx, err) {
			return b.complete(ctx, err)
		}
		late = false
	}
	if err := b.requireSchemaRoom(); err != nil {
		return err
	}
	claim := func() error { return b.claim(ctx) }
	inSnapshot := func(ctx context.Context, conn *pgx.Conn) (err error) {
		b.marker.Version, err = schemaVersion(ctx, conn)
		return err
	}
	left, err := b.copySnapshot(ctx, b.conn, b.request, b.source, b.name, claim, inSnapshot, &b.marker.Copier)
	b.marker.Note = strings.Join(left, "\n")
	if err == nil || hopeless(ctx, err) {
		return b.complete(ctx, err)
	}
	if late {
		if templateErr := b.byTemplate(ctx); templateErr == nil || hopeless(ctx, templateErr) {
			return b.complete(ctx, templateErr)
		}
	}
	return &CannotCopyError{Reasons: b.reasons, NoDump: b.dumpProgram() == "", err: err}
}

// templateWay reports whether the image can be made by CREATE DATABASE … TEMPLATE and truncation: quick means that nobody
// would notice, late that somebody may, so that another way is better where there is one.
func (b *imageBuild) templateWay(ctx context.Context) (quick, late bool, err error) {
	refuse := func(format string, args ...any) { b.reasons = append(b.reasons, fmt.Sprintf(format, args...)) }
	conn, err := b.emptier(ctx, b.request.Source)
	if err != nil {
		return false, false, err
	}
	emptying, err := b.readEmptying(ctx, conn)
	_ = conn.Close(context.WithoutCancel(ctx))
	if err != nil {
		return false, false, err
	}
	b.reasons = slices.Clone(emptying.obstacles)
	e := extent{b.source.size, b.survey.files}
	pause := b.estimate(b.templateStrategy(e), e)
	forced := b.cfg.Strategy != ""
	if b.cfg.Strategy == StrategyCopy {
		refuse("branching.strategy is copy")
	}
	if !b.source.template {
		refuse("the role %s does not own the database %s", b.caps.Role, b.request.Source)
	}
	if b.cfg.MaxPause > 0 && pause > b.cfg.MaxPause && !forced {
		refuse("copying its files would hold requests for about %s, and branching.max-pause is %s", pause.Round(100*time.Millisecond), b.cfg.MaxPause)
	}
	if b.source.preparedXact > 0 {
		refuse("it has %d prepared transactions", b.source.preparedXact)
	}
	if b.source.externalSessions > 0 && b.cfg.Sessions != Terminate {
		refuse("%d sessions of other programs are open in it, and branching.sessions is not terminate", b.source.externalSessions)
	}
	late = len(b.reasons) == 0
	// Without pg_dump, what PostgreSQL itself copies is worth the wait that full clones cost, too.
	short := pause <= imagePause || b.caps.Reflink || b.dumpProgram() == ""
	quick = late && b.source.externalSessions == 0 && (forced || short)
	return quick, late, nil
}

// byTemplate copies the source as a whole, then takes the rows out.
func (b *imageBuild) byTemplate(ctx context.Context) error {
	if err := b.drop(ctx, b.conn, b.name); err != nil {
		return err
	}
	e := extent{b.source.size, b.survey.files}
	if err := b.requireRoom(ctx, b.conn, b.templateStrategy(e), e.bytes); err != nil {
		b.reasons = append(b.reasons, err.Error())
		return err
	}
	pause, err := b.template(ctx, b.conn, b.request.Source, b.name, b.source, b.templateStrategy(e), e)
	b.pause += pause
	if err == nil {
		err = b.claim(ctx)
	}
	if err == nil {
		b.request.Step("image_created")
		err = b.emptyCopy(ctx)
	}
	if err != nil {
		b.reasons = append(b.reasons, err.Error())
		b.cfg.Log.Info("the schema image is not made by copying the database", "source", b.request.Source, "reason", err)
		return err
	}
	b.marker.Copier = CopierTemplate
	return nil
}

// emptyCopy reads the version of the schema, which is the source's at the moment of the copy, and takes the rows out.
func (b *imageBuild) emptyCopy(ctx context.Context) error {
	conn, err := b.emptier(ctx, b.name)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if b.marker.Version, err = schemaVersion(ctx, conn); err != nil {
		return err
	}
	warnings, err := b.empty(ctx, conn)
	b.marker.Note = strings.Join(warnings, "\n")
	return err
}

// emptier opens a session that empties databases. On Bough's own server it is a superuser's, since only those delete the
// samples in planner statistics, before PostgreSQL 18, and own everything. Nothing in it runs with a superuser's rights that
// somebody else wrote: triggers are not called, and views are refreshed as their owners.
func (b *imageBuild) emptier(ctx context.Context, database string) (*pgx.Conn, error) {
	if b.cfg.Supervise != nil {
		return b.supervise(ctx, database)
	}
	cfg := b.base.Copy()
	cfg.Database = database
	cfg.RuntimeParams["application_name"] = b.application(b.request.op())
	cfg.RuntimeParams["default_transaction_read_only"] = "off"
	if b.caps.Superuser && b.caps.ServerVersion >= 170000 {
		cfg.RuntimeParams["event_triggers"] = "off" // those on login too
	}
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := prepareSession(ctx, conn); err != nil {
		_ = conn.Close(context.WithoutCancel(ctx))
		return nil, err
	}
	return conn, nil
}

// claim marks the new database as an image that is being made, and keeps others out of it.
func (b *imageBuild) claim(ctx context.Context) error {
	if err := comment(ctx, b.conn, b.name, b.marker.comment("")); err != nil {
		return err
	}
	_, err := b.conn.Exec(ctx, "revoke all on database "+ident(b.name)+" from public; alter database "+ident(b.name)+" allow_connections true")
	return err
}

// complete gives the image Bough's own objects, so that its copies have them, and marks it as complete.
func (b *imageBuild) complete(ctx context.Context, err error) error {
	if err != nil {
		return err
	}
	b.request.Step("image_filled")
	if _, err := b.ensureIn(ctx, b.name, b.request.op()); err != nil {
		return err
	}
	// From here on nobody can connect to it, superusers included.
	statement := "alter database " + ident(b.name) + " with allow_connections false"
	if b.separation.Owner != "" {
		// Those whom a copy from a snapshot has let in. The login of the branch may be dropped before the image is.
		for _, role := range []string{b.names.authenticator, b.loginOf(b.request.Branch, b.request.Target)} {
			exists, err := roleExists(ctx, b.conn, role)
			if err != nil {
				return err
			}
			if exists {
				statement += "; revoke all on database " + ident(b.name) + " from " + ident(role)
			}
		}
	}
	if _, err := b.conn.Exec(ctx, statement); err != nil {
		return fmt.Errorf("closing the schema image: %w", err)
	}
	b.marker.Complete = true
	if err := comment(ctx, b.conn, b.name, b.marker.comment("")); err != nil {
		return err
	}
	b.request.Step("image_completed")
	return nil
}

// warnings are those of the making of an image, which hold for each of its copies.
func (m Marker) warnings() []string {
	if m.Note == "" {
		return nil
	}
	return strings.Split(m.Note, "\n")
}

// CannotCopyError says that none of the ways to copy a schema works.
type CannotCopyError struct {
	// Reasons say why CREATE DATABASE … TEMPLATE was not possible.
	Reasons []string
	NoDump  bool  // there is no pg_dump that fits the server
	err     error // of the other ways
}

func (e *CannotCopyError) Error() string {
	text := e.err.Error()
	if len(e.Reasons) > 0 {
		list := e.Reasons
		if len(list) > 5 {
			list = append(slices.Clone(list[:5]), fmt.Sprintf("%d more reasons", len(e.Reasons)-5))
		}
		text += "; CREATE DATABASE … TEMPLATE is not possible either: " + strings.Join(list, "; ")
	}
	var unsupported *pgcopy.UnsupportedError
	if e.NoDump && errors.As(e.err, &unsupported) {
		text += "; a pg_dump of the server's version or newer would copy them"
	}
	return text
}

func (e *CannotCopyError) Unwrap() error { return e.err }
