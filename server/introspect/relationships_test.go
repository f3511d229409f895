package introspect_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boughdb/bough/server/introspect"
)

func pairs(list []introspect.ColumnPair) string {
	var parts []string
	for _, p := range list {
		parts = append(parts, p.From+"="+p.To)
	}
	return strings.Join(parts, ",")
}

// describeRelationships is what leads away from a relation.
func describeRelationships(r *introspect.Relation) []string {
	var list []string
	for _, x := range r.Relationships {
		s := "many "
		if x.One {
			s = "one "
		}
		if x.To.Schema != "public" {
			s += x.To.Schema + "."
		}
		s += x.To.Name + " by " + x.Name
		if x.Outgoing {
			s += " out"
		}
		if x.Columns != nil {
			s += " " + pairs(x.Columns)
		}
		if x.Junction != nil {
			s += fmt.Sprintf(" through %s, %s %s", x.Junction.Name, x.JunctionName, pairs(x.JunctionColumns))
		}
		if x.Function != nil {
			s += " computed"
		}
		if x.From != r {
			s += " WRONG FROM"
		}
		list = append(list, s)
	}
	return list
}

func checkRelationships(t *testing.T, s *introspect.Schema, want map[string][]string) {
	t.Helper()
	got := map[string][]string{}
	for name := range want {
		got[name] = describeRelationships(relation(t, s, name))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error("relationships (-want +got):\n" + diff)
	}
}

func keyOf(r *introspect.Relation) string {
	var names []string
	for _, c := range r.PrimaryKey {
		names = append(names, c.Name)
		if !c.PrimaryKey {
			names = append(names, "NOT MARKED")
		}
	}
	return strings.Join(names, ",")
}

func TestKeys(t *testing.T) {
	t.Parallel()
	s := load(t, `
		create table t (
			b int, a int, c int, d int, e int,
			constraint t_key primary key (a, b) include (e),
			constraint cd unique (c, d) deferrable,
			constraint d_once unique nulls not distinct (d)
		);
		create unique index t_c on t (c) where d > 0 and e = 1;
		create unique index t_expression on t (abs(c));
		create unique index t_e on t (e desc);
		create index t_plain on t (d);
		create table none (a int)`, options)
	got := relation(t, s, "t")
	want := []*introspect.Unique{
		{Name: "t_key", Columns: []string{"a", "b"}, Primary: true},
		{Name: "cd", Columns: []string{"c", "d"}, Deferrable: true},
		{Name: "d_once", Columns: []string{"d"}, NullsNotDistinct: true},
		{Name: "t_c", Columns: []string{"c"}, Predicate: "((d > 0) AND (e = 1))"},
		{Name: "t_e", Columns: []string{"e"}},
	}
	if diff := cmp.Diff(want, got.Uniques); diff != "" {
		t.Error("(-want +got):\n" + diff)
	}
	if k := keyOf(got); k != "a,b" {
		t.Errorf("the primary key is %s", k)
	}
	if r := relation(t, s, "none"); r.PrimaryKey != nil || r.Uniques != nil {
		t.Errorf("got %+v", r)
	}
}

func TestForeignKeys(t *testing.T) {
	t.Parallel()
	s := load(t, `
		create schema other;
		create schema hidden;
		create table other.countries (code text primary key);
		create table hidden.secrets (id int primary key);
		create table people (id int primary key, boss int references people, country text references other.countries,
			secret int references hidden.secrets);
		create table passports (person int primary key references people);
		create table desks (id int, person int unique references people);
		create table lockers (id int, person int references people);
		create unique index on lockers (person) where id > 0;
		create table rooms (building int, number int, primary key (building, number));
		create table keys (id int primary key, b int, n int, foreign key (n, b) references rooms (number, building),
			maker int constraint made_by references people, owner int constraint owned_by references people);
		create table seats (building int, number int, primary key (number), foreign key (building, number) references rooms)`,
		introspect.Options{Schemas: []string{"public", "other"}})
	checkRelationships(t, s, map[string][]string{
		"people": {
			"one other.countries by people_country_fkey out country=code",
			"one desks by desks_person_fkey id=person",
			"many keys by made_by id=maker",
			"many keys by owned_by id=owner",
			"many lockers by lockers_person_fkey id=person",
			"one passports by passports_person_fkey id=person",
			"one people by people_boss_fkey out boss=id",
			"many people by people_boss_fkey id=boss",
		},
		"passports": {"one people by passports_person_fkey out person=id"},
		"keys": {
			"one people by made_by out maker=id", "one people by owned_by out owner=id",
			"one rooms by keys_n_b_fkey out n=number,b=building",
		},
		"rooms": {"many keys by keys_n_b_fkey number=n,building=b", "one seats by seats_building_number_fkey building=building,number=number"},
	})
	if got := describeRelationships(s.Relation("other", "countries")); len(got) != 1 || got[0] != "many people by people_country_fkey code=country" {
		t.Errorf("countries: %q", got)
	}
}

func TestManyToMany(t *testing.T) {
	t.Parallel()
	s := load(t, `
		create table films (id int primary key);
		create table actors (first text, last text, primary key (first, last));
		create table roles (film int constraint in_film references films, first text, last text, part text,
			constraint by_actor foreign key (first, last) references actors, primary key (film, first, last, part));
		create table likes (film int references films, first text, last text, foreign key (first, last) references actors);
		create table sequels (film int references films, next int references films, primary key (film, next));`, options)
	checkRelationships(t, s, map[string][]string{
		"films": {
			"many actors by in_film id=film through roles, by_actor first=first,last=last",
			"many films by sequels_film_fkey id=film through sequels, sequels_next_fkey next=id",
			"many films by sequels_next_fkey id=next through sequels, sequels_film_fkey film=id",
			"many likes by likes_film_fkey id=film",
			"many roles by in_film id=film",
			"many sequels by sequels_film_fkey id=film",
			"many sequels by sequels_next_fkey id=next",
		},
		"actors": {
			"many films by by_actor first=first,last=last through roles, in_film film=id",
			"many likes by likes_first_last_fkey first=first,last=last",
			"many roles by by_actor first=first,last=last",
		},
	})
}

func TestViewRelationships(t *testing.T) {
	t.Parallel()
	s := load(t, `
		create table customers (id int primary key, name text, email text unique);
		create table orders (id int primary key, customer int references customers, total int);
		create table staff (id int primary key, boss int references staff, name text);
		create view v_customers as select name as label, id as number from customers;
		create view v_orders as select total, o.customer as buyer, o.id from orders o where total > 0;
		create view v_deep as with x as (select * from v_orders) select y.buyer as b, y.id as key from (select * from x) y;
		create materialized view m_orders as select id, customer from orders;
		create view joined as select o.id, o.customer, c.id as cid, c.name from orders o join customers c on c.id = o.customer;
		create view pairs as select a.id, a.boss, b.id as boss_id, b.name from staff a join staff b on b.id = a.boss;
		create view expressions as select id + 0 as id, customer + 0 as customer from orders;
		create view unioned as select id, customer from orders union all select id, customer from orders;
		create view multiplied as select id, customer, generate_series(1, 2) as n from orders;
		create view on_multiplied as select id, n from multiplied;
		create view totals as select customer, sum(total) as sum from orders group by customer;
		create view odd as select id as ":resorigtbl 1", name as "{} (\", email as "a b" from customers`, options)
	keys := map[string]string{
		"v_customers": "number", "v_orders": "id", "v_deep": "key", "m_orders": "id", "joined": "id", "expressions": "",
		"unioned": "", "multiplied": "", "on_multiplied": "", "totals": "", "odd": ":resorigtbl 1", "pairs": "id,boss_id",
	}
	got := map[string]string{}
	for name := range keys {
		got[name] = keyOf(relation(t, s, name))
	}
	if diff := cmp.Diff(keys, got); diff != "" {
		t.Error("keys of views (-want +got):\n" + diff)
	}
	const fk = "orders_customer_fkey"
	checkRelationships(t, s, map[string][]string{
		"orders": {
			"one customers by " + fk + " out customer=id",
			"many joined by " + fk + " out customer=cid",
			"one odd by " + fk + " out customer=:resorigtbl 1",
			"one v_customers by " + fk + " out customer=number",
		},
		"v_deep": {
			"one customers by " + fk + " out b=id",
			"many joined by " + fk + " out b=cid",
			"one odd by " + fk + " out b=:resorigtbl 1",
			"one v_customers by " + fk + " out b=number",
		},
		"v_customers": {
			"many joined by " + fk + " number=customer",
			"many m_orders by " + fk + " number=customer",
			"many multiplied by " + fk + " number=customer",
			"many orders by " + fk + " number=customer",
			"many totals by " + fk + " number=customer",
			"many v_deep by " + fk + " number=b",
			"many v_orders by " + fk + " number=buyer",
		},
		"expressions": nil,
		"unioned":     nil,
		"staff": {
			"many pairs by staff_boss_fkey out boss=boss_id",
			"many pairs by staff_boss_fkey out boss=id",
			"many pairs by staff_boss_fkey id=boss",
			"one staff by staff_boss_fkey out boss=id",
			"many staff by staff_boss_fkey id=boss",
		},
	})
}

// TestViewsOfHiddenTables is the way of those who expose a schema of views only.
func TestViewsOfHiddenTables(t *testing.T) {
	t.Parallel()
	s := load(t, `
		create schema private;
		create table private.films (id int primary key, title text);
		create table private.actors (id int primary key, name text);
		create table private.roles (film int references private.films, actor int references private.actors, primary key (film, actor));
		create view private.middle as select * from private.films;
		create view films as select * from private.middle;
		create view actors as select * from private.actors;
		create view roles as select actor as a, film as f from private.roles`, options)
	checkRelationships(t, s, map[string][]string{
		"films": {
			"many actors by roles_film_fkey id=f through roles, roles_actor_fkey a=id",
			"many roles by roles_film_fkey id=f",
		},
		"roles": {"one actors by roles_actor_fkey out a=id", "one films by roles_film_fkey out f=id"},
	})
	if k := keyOf(relation(t, s, "roles")); k != "f,a" {
		t.Errorf("the key of the view is %s", k)
	}
}

func TestOuterJoinsGiveNoKeys(t *testing.T) {
	t.Parallel()
	s := load(t, `
		create table a (id int primary key); create table b (id int primary key, a int references a);
		create view kept as select b.id, a.id as a from b left join a on a.id = b.a;
		create view nulled as select a.id as a, b.id from a left join b on b.a = a.id`, options)
	if k := keyOf(relation(t, s, "kept")); k != "id" {
		t.Errorf("kept has the key %q", k)
	}
	conn := connectTo(t)
	if k := keyOf(relation(t, s, "nulled")); k != "" && atLeast(t, conn, 160000) {
		t.Errorf("nulled has the key %q, of which a part may be null", k)
	}
}

func TestPartitions(t *testing.T) {
	t.Parallel()
	s := load(t, `
		create table regions (id int primary key);
		create table events (id int, region int references regions, primary key (id, region)) partition by list (region);
		create table events1 partition of events for values in (1);
		create table events2 partition of events for values in (2, 3) partition by list (region);
		create table events2a partition of events2 for values in (2);
		create table notes (id int primary key, event int, region int, foreign key (event, region) references events);
		create table logs (at int, note int references notes) partition by range (at);
		create table logs1 partition of logs for values from (0) to (10)`, options)
	checkRelationships(t, s, map[string][]string{
		"regions": {"many events by events_region_fkey id=region"},
		"events": {
			"many notes by notes_event_region_fkey id=event,region=region",
			"one regions by events_region_fkey out region=id",
		},
		"notes": {
			"one events by notes_event_region_fkey out event=id,region=region",
			"many logs by logs_note_fkey id=note",
		},
		"logs1": {"one notes by logs_note_fkey out note=id"},
	})
	for _, name := range []string{"events1", "events2", "events2a"} {
		r := relation(t, s, name)
		var targets []string
		for _, x := range r.Relationships {
			targets = append(targets, fmt.Sprint(x.To.Name, " ", x.One, " ", pairs(x.Columns)))
		}
		want := []string{"notes false id=event,region=region", "regions true region=id"}
		if diff := cmp.Diff(want, targets); diff != "" || !r.Partition {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestComputed(t *testing.T) {
	t.Parallel()
	s := load(t, `
		create schema more;
		create table directors (id int primary key, name text);
		create table films (id int primary key, director int references directors, title text);
		create view v_films as select * from films;
		create function upper_title(films) returns text stable language sql as 'select upper($1.title)';
		create function title(films) returns text stable language sql as $$select 'never used'$$;
		create function tags(films) returns setof text stable language sql as $$select 'a' union all select 'b'$$;
		create function with_more(films, int) returns text stable language sql as $$select 'x'$$;
		create function label(v_films) returns text stable language sql as 'select $1.title';
		create function directors(films) returns setof directors rows 1 stable language sql as 'select * from directors where id = $1.director';
		create function remakes(films) returns setof films stable language sql as 'select * from films where title = $1.title';
		create function more.upper_title(films) returns text stable language sql as 'select $1.title'`,
		introspect.Options{Schemas: []string{"public", "more"}})
	films := relation(t, s, "films")
	if len(films.Computed) != 1 || films.Computed["upper_title"].Schema != "public" {
		t.Errorf("computed columns: %v", films.Computed)
	}
	if relation(t, s, "v_films").Computed["label"] == nil {
		t.Error("the view has no computed column")
	}
	checkRelationships(t, s, map[string][]string{
		"films": {"one directors by directors computed", "many films by remakes computed"},
		"directors": {
			"many films by films_director_fkey id=director",
			"many v_films by films_director_fkey id=director",
		},
		"v_films": {"one directors by films_director_fkey out director=id"},
	})
}
