package users

import (
	"context"
	"fmt"
	"slices"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/fault"
)

// Proof is what came by mail: the token of a link, or the digits beside it with the address that they went to.
type Proof struct {
	Token       string
	Email, Code string
}

// maxCodeTries is how often the code of one mail may be tried. With the limit of mails to an address, a stranger has
// some dozens of guesses an hour among a million.
const maxCodeTries = 5

// signInPurposes are what links are for that sign in.
var signInPurposes = []db.MailPurpose{db.MailPurposeMagicLink, db.MailPurposeSignUp, db.MailPurposeChangeEmail}

// linkPurposes are those of tokens that programs redeem: the links', and the code's that a browser got for one.
var linkPurposes = append([]db.MailPurpose{db.MailPurposeExchange}, signInPurposes...)

// spender spends what was examined. It belongs into the transaction of what that is for.
type spender func(context.Context, *db.Queries) (db.MailToken, error)

// examine looks at a proof, which must be for one of the purposes, and returns how it is spent. A code is checked here,
// since that takes time; of parallel calls with one proof one can spend it.
func (s *Service) examine(ctx context.Context, proof Proof, c Client, purposes []db.MailPurpose) (spender, error) {
	if err := s.limits.Take(ctx, otherNetwork, c.Network()); err != nil {
		return nil, err
	}
	switch {
	case proof.Token != "" && proof.Email == "" && proof.Code == "":
		return func(ctx context.Context, q *db.Queries) (db.MailToken, error) {
			row, err := q.SpendMailToken(ctx, hashOf(proof.Token))
			return spent(row, err, purposes)
		}, nil
	case proof.Token != "" || proof.Email == "" || proof.Code == "":
		return nil, fault.Validation("send either token, or email and code")
	}
	email, err := normalize(proof.Email)
	if err != nil {
		return nil, err
	}
	if err := s.takeSignIn(ctx, email, c); err != nil {
		return nil, err
	}
	names := make([]string, len(purposes))
	for i, purpose := range purposes {
		names[i] = string(purpose)
	}
	row, err := db.New(s.pool).TryMailCode(ctx, db.TryMailCodeParams{Email: email, Purposes: names, MaxTries: maxCodeTries})
	if err != nil && !none(err) {
		return nil, fmt.Errorf("looking up a code: %w", err)
	}
	// Without a code this takes as long and comes to the same.
	ok, _, err := s.hasher.Verify(ctx, proof.Code, value(row.CodeHash))
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, ErrLinkExpired
	}
	return func(ctx context.Context, q *db.Queries) (db.MailToken, error) {
		row, err := q.SpendMailTokenByID(ctx, db.SpendMailTokenByIDParams{ID: row.ID, CodeHash: row.CodeHash})
		return spent(row, err, purposes)
	}, nil
}

func spent(row db.MailToken, err error, purposes []db.MailPurpose) (db.MailToken, error) {
	switch {
	case none(err), err == nil && !slices.Contains(purposes, row.Purpose):
		return row, ErrLinkExpired
	case err != nil:
		return row, fmt.Errorf("spending a link: %w", err)
	}
	return row, nil
}
