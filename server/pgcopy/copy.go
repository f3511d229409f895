package pgcopy

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
)

// Copy copies the database.
func Copy(ctx context.Context, o Options) (Result, error) {
	return Result{}, errors.ErrUnsupported
}

// Describe returns a description of everything in the current database.
func Describe(ctx context.Context, conn *pgx.Conn) ([]Object, error) {
	return nil, errors.ErrUnsupported
}
