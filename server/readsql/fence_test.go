package readsql_test

import (
	"testing"

	"github.com/boughdb/bough/server/readsql"
)

// Conditions of a statement do not see the rows that a view hides.
func TestViewsKeepTheirRows(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.exec(t, `
		create schema "Odd schema";
		create table salaries (id int primary key, owner text, amount int, note text, data jsonb, parts int[]);
		insert into salaries values (1, 'ann', 100, '100', '{"a": 1}', '{1}'), (2, 'bob', 777, 'secret', '{"a": "x"}', '{2}');
		create view own_salaries as select id, amount, note, data, parts from salaries where owner = auth.uid();
		create view "Own ""salaries" as select * from salaries where owner = auth.uid();
		create view safe_salaries with (security_barrier) as select * from salaries where owner = auth.uid();
		create view own_pairs as select s.id, s.amount, o.name from salaries s join open_table o on o.id = s.id where s.owner = auth.uid();
		create function fail(n int) returns int immutable language plpgsql as $$ begin if n = 777 then raise exception 'there is %', n; end if; return n; end $$;
		grant select on own_salaries, "Own ""salaries", safe_salaries, own_pairs to reader;
		analyze`)
	for _, c := range []struct{ sql, want string }{
		{"select id from own_salaries where 1/(amount - 777) < 5", "1"},
		{"select id from public.own_salaries where 1/(amount - 777) < 5", "1"},
		{"select s.id from own_salaries s where 1/(s.amount - 777) < 5", "1"},
		{"select s.a from own_salaries as s (a, b) where 1/(b - 777) < 5", "1"},
		{"select own_salaries.id from own_salaries where note::int > 0", "1"},
		{"select id from own_salaries where fail(amount) > 0", "1"},
		{"select id from own_salaries where (data->>'a')::int > 0", "1"},
		{"select id from own_salaries where parts[1] = 1 and 1/(amount - 777) < 5", "1"},
		{"select id from (select id, 1/(amount - 777) as x from own_salaries) t where x < 5", "1"},
		{"with t as (select id, 1/(amount - 777) as x from own_salaries) select id from t where x < 5", "1"},
		{"with own_salaries as (select 5 as id) select o.id, s.id from own_salaries o, public.own_salaries s where 1/(s.amount - 777) < 5", "5,1"},
		{"select id from own_pairs where 1/(amount - 777) < 5", "1"},
		{"select a.id, b.id from own_salaries a join own_salaries b on 1/(b.amount - 777) < 5 and a.id = b.id", "1,1"},
		{"select o.id from open_table o where o.id < 3 and exists (select from own_salaries s where s.id = o.id and 1/(s.amount - 777) < 5)", "1"},
		{"select o.id, x.amount from open_table o cross join lateral (select amount from own_salaries s where s.id = o.id and fail(s.amount) > 0) x", "1,100"},
		{`select id from "Own ""salaries" where 1/(amount - 777) < 5`, "1"},
		{`select "Own ""salaries".id from public."Own ""salaries" where 1/(amount - 777) < 5`, "1"},
		{`select x.id from "Own ""salaries" x where 1/(x.amount - 777) < 5`, "1"},
		{"select s is null from own_salaries s where 1/(amount - 777) < 5", "false"},
		{"select id, E'public.own_salaries \\' \"public\".own_salaries' from own_salaries where 1/(amount - 777) < 5", `1,"public.own_salaries ' \"public\".own_salaries"`},
		{"select id from safe_salaries where 1/(amount - 777) < 5", "1"},
		{"select id, 1/(amount - 777) from own_salaries", "1,0"},
		{"select id from own_salaries where id = 1 order by 1/(amount - 777)", "1"},
		{"select id from own_salaries union select id from own_salaries where 1/(amount - 777) < 5", "1"},
	} {
		res, err := w.runner.Run(t.Context(), w.query(c.sql))
		if err != nil {
			t.Errorf("%s: %v", c.sql, err)
			continue
		}
		if got := show(res); got != c.want {
			t.Errorf("%s: got %s, want %s", c.sql, got, c.want)
		}
		if _, err := w.runner.Explain(t.Context(), w.query(c.sql), true); err != nil {
			t.Errorf("explaining %s: %v", c.sql, err)
		}
	}
	// A column that looks like the view is not taken for it.
	_, err := w.runner.Run(t.Context(), w.query("select public.own_salaries from (select 1 as own_salaries) public, public.own_salaries s where 1/(s.amount - 777) < 5"))
	refused(t, err, "could show rows which the view hides")
}

func TestSQLOfACallerIsBounded(t *testing.T) {
	t.Parallel()
	w := setup(t)
	runner := w.bounded(t, readsql.Config{Schemas: []string{"public"}, PerCaller: 1, Total: 2})
	started := make(chan error, 2)
	for _, id := range []string{"ann", "bob"} {
		go func() {
			q := w.query("select count(*) from generate_series(1, 1000000000)")
			q.Caller.ID = id
			_, err := runner.Run(t.Context(), q)
			started <- err
		}()
	}
	waitUntil(t, func() bool {
		return w.value(t, "select count(*) from pg_stat_activity where datname = current_database() and state = 'active' and query like '%bough_rows%' and pid <> pg_backend_pid()") == "2"
	})
	for _, id := range []string{"ann", "bob", "eve"} {
		q := w.query("select 1")
		q.Caller.ID = id
		_, err := runner.Run(t.Context(), q)
		refused(t, err, "too many SQL statements")
	}
	w.exec(t, "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()")
	<-started
	<-started
	q := w.query("select 1")
	q.Caller.ID = "ann"
	waitUntil(t, func() bool {
		_, err := runner.Run(t.Context(), q)
		return err == nil
	})
}
