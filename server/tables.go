package server

import (
	"log/slog"

	"github.com/boughdb/bough/server/introspect"
	"github.com/boughdb/bough/server/limits"
	"github.com/boughdb/bough/server/postgres"
	"github.com/boughdb/bough/server/tables"
)

// newTables makes the service of the records of main and the branches.
func newTables(cfg Config, data *postgres.Cluster, schemas *introspect.Cache, memory *limits.Budget, log *slog.Logger) *tables.Service {
	return tables.New(tables.Config{
		Schemas: cfg.API.Schemas, MaxRows: cfg.API.MaxRows, MaxBody: cfg.API.MaxBody, StatementTimeout: cfg.API.StatementTimeout,
		Explain: cfg.API.Explain, Roles: data.DataRoles(), MaxColumns: cfg.API.MaxColumns, MaxHeld: int(cfg.API.MaxHeld), Memory: memory,
		Unnamed: data.Pools.Pooler().Shared(), TextForm: data.Pools.TextForm(),
	}, schemas, data.Pools.Acquire, log)
}
