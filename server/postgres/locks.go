package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// LockHolder is somebody who keeps a relation from being read.
type LockHolder struct {
	Relation    string // with its schema
	Waiting     bool   // has asked for the lock, and lets everybody wait who asks after it
	PID         int32  // 0 for a prepared transaction
	Transaction string // the name of a prepared transaction
	Application string
	Role        string
	State       string
	For         time.Duration // since the transaction began
}

func (h LockHolder) String() string {
	if h.PID == 0 {
		return fmt.Sprintf("%s is locked by the prepared transaction %q of %s, for %s", h.Relation, h.Transaction, h.Role, h.For)
	}
	who := fmt.Sprintf("process %d (%s, role %s, %s)", h.PID, orUnnamed(h.Application), h.Role, h.State)
	if h.Waiting {
		return fmt.Sprintf("%s is about to be locked by %s, which has waited for other sessions for %s", h.Relation, who, h.For)
	}
	return fmt.Sprintf("%s is locked (ACCESS EXCLUSIVE) by %s, for %s", h.Relation, who, h.For)
}

// Advice says how to end what holds the lock.
func (h LockHolder) Advice() string {
	if h.PID == 0 {
		return "commit it, or: rollback prepared " + literal(h.Transaction)
	}
	return fmt.Sprintf("end that transaction, or the session: select pg_terminate_backend(%d)", h.PID)
}

func orUnnamed(application string) string {
	if application == "" {
		return "unnamed program"
	}
	return application
}

// LockHolders lists who keeps relations of a database from being read for longer than a moment, the longest first.
func (c *Cluster) LockHolders(ctx context.Context, database string, longer time.Duration) ([]LockHolder, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := c.connect(ctx, database, "")
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	// Locks of relations that are being made are of no concern: nobody else sees those. The names come from the catalog
	// as it was before the locks, without a lock of their own.
	rows, err := conn.Query(ctx, `
		select format('%I.%I', n.nspname, c.relname), not l.granted, coalesce(l.pid, 0), coalesce(p.gid, ''), coalesce(a.application_name, ''),
			coalesce(a.usename, p.owner, '')::text, coalesce(a.state, 'prepared'),
			greatest(extract(epoch from clock_timestamp() - coalesce(a.xact_start, p.prepared)), 0)::float8
		from pg_locks l
		join pg_database d on d.oid = l.database and d.datname = current_database()
		join pg_class c on c.oid = l.relation and c.relkind in ('r', 'p', 'v', 'm', 'f', 'S')
		join pg_namespace n on n.oid = c.relnamespace
		left join pg_stat_activity a on a.pid = l.pid
		left join (
			select t.virtualtransaction, x.gid, x.owner, x.prepared
			from pg_prepared_xacts x join pg_locks t on t.locktype = 'transactionid' and t.transactionid = x.transaction and t.pid is null
		) p on l.pid is null and p.virtualtransaction = l.virtualtransaction
		where l.locktype = 'relation' and l.mode = 'AccessExclusiveLock' and l.pid is distinct from pg_backend_pid()
			and coalesce(a.xact_start, p.prepared) < clock_timestamp() - make_interval(secs => $1)
		order by l.granted desc, 8 desc, 1
		limit 10`, longer.Seconds())
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (LockHolder, error) {
		var h LockHolder
		var seconds float64
		err := row.Scan(&h.Relation, &h.Waiting, &h.PID, &h.Transaction, &h.Application, &h.Role, &h.State, &seconds)
		h.For = time.Duration(seconds * float64(time.Second)).Round(time.Second)
		return h, err
	})
}

// explainLock adds to the error of a clone that waited for a lock in vain who holds it. Where nobody does any more, the
// error stays as it is.
func (c *Cluster) explainLock(ctx context.Context, database string, cause error) error {
	holders, err := c.LockHolders(ctx, database, time.Second)
	if err != nil {
		c.cfg.Log.Debug("looking for the holders of locks", "database", database, "error", err)
	}
	if len(holders) == 0 {
		return cause
	}
	var list []string
	for _, h := range holders[:min(len(holders), 3)] {
		list = append(list, h.String())
	}
	return &lockedError{
		message: fmt.Sprintf("database %q cannot be read: %s; what helps: %s", database, strings.Join(list, "; "), holders[0].Advice()), cause: cause,
	}
}

// lockedError says why a clone could not read its source. PostgreSQL's own words, which name nobody, are only its cause.
type lockedError struct {
	message string
	cause   error
}

func (e *lockedError) Error() string { return e.message }
func (e *lockedError) Unwrap() error { return e.cause }
