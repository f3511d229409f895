package rows_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/boughdb/bough/server/compile"
	"github.com/boughdb/bough/server/limits"
	"github.com/boughdb/bough/server/rows"
)

// written takes a body and remembers the largest piece that was written.
type written struct {
	bytes.Buffer
	largest int
}

func (p *written) Write(b []byte) (int, error) {
	p.largest = max(p.largest, len(b))
	return p.Buffer.Write(b)
}

// nasty is text with everything that is escaped, at all places of a piece.
func nasty(n int) string {
	return strings.Repeat("a\"b\\c\nd\x01é€😀", n/20+1)
}

func TestLongValuesAreWrittenPieceByPiece(t *testing.T) {
	t.Parallel()
	conn := setup(t, "create table docs (id int, body text, data jsonb, note text)")
	text := nasty(2 << 20)
	data, err := json.Marshal([]string{text, text})
	if err != nil {
		t.Fatal(err)
	}
	if r := conn.ExecParams(t.Context(), "insert into docs values (1, $1, $2, null), (2, '', 'null', 'x')", [][]byte{[]byte(text), data}, nil, nil, nil).Read(); r.Err != nil {
		t.Fatal(r.Err)
	}
	st := statement("select id, body, data, note from docs order by id", nil, "id:n", "body", "data:j", "note")
	run := func(t *testing.T, sink func(*rows.Body) rows.Sink) *written {
		t.Helper()
		w := &written{}
		b := rows.NewBody(func() (io.Writer, error) { return w, nil }, false)
		defer b.Release()
		if err := rows.Run(t.Context(), conn, &rows.Session{}, rows.Step{Statement: st, Sink: sink(b)}); err != nil {
			t.Fatal(err)
		}
		if err := b.Finish(); err != nil {
			t.Fatal(err)
		}
		return w
	}
	var parsed any
	if err := json.Unmarshal(data, &parsed); err != nil {
		t.Fatal(err)
	}
	want := []map[string]any{
		{"id": 1.0, "body": text, "data": parsed, "note": nil}, {"id": 2.0, "body": "", "data": nil, "note": "x"},
	}
	t.Run("JSON", func(t *testing.T) {
		w := run(t, func(b *rows.Body) rows.Sink { return rows.NewObjects(b, st.Output, rows.Options{}) })
		var got []map[string]any
		if err := json.Unmarshal(w.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error("another result")
		}
		if w.largest > 256<<10 {
			t.Errorf("a piece has %d bytes", w.largest)
		}
	})
	t.Run("JSON without nulls", func(t *testing.T) {
		w := run(t, func(b *rows.Body) rows.Sink { return rows.NewObjects(b, st.Output, rows.Options{StripNulls: true}) })
		var got []map[string]any
		if err := json.Unmarshal(w.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		bare := []map[string]any{{"id": 1.0, "body": text, "data": parsed}, {"id": 2.0, "body": "", "note": "x"}}
		if diff := cmp.Diff(bare, got); diff != "" {
			t.Error("another result")
		}
	})
	t.Run("NDJSON", func(t *testing.T) {
		w := run(t, func(b *rows.Body) rows.Sink { return rows.NewNDJSON(b, st.Output, rows.Options{}) })
		lines := strings.Split(strings.TrimSuffix(w.String(), "\n"), "\n")
		if len(lines) != 2 {
			t.Fatalf("%d lines, want 2", len(lines))
		}
		for i, line := range lines {
			var got map[string]any
			if err := json.Unmarshal([]byte(line), &got); err != nil || !cmp.Equal(want[i], got) {
				t.Errorf("line %d is another result: %v", i, err)
			}
		}
	})
	t.Run("CSV", func(t *testing.T) {
		w := run(t, func(b *rows.Body) rows.Sink { return rows.NewCSV(b, st.Output) })
		records, err := csv.NewReader(&w.Buffer).ReadAll()
		if err != nil || len(records) != 3 || records[1][1] != text {
			t.Errorf("%d records, %v", len(records), err)
		}
	})
}

func TestHeldAnswersAreBounded(t *testing.T) {
	t.Parallel()
	conn := setup(t, "create table notes (id int)")
	read := &rows.Session{Settings: []rows.Setting{{Name: "transaction_read_only", Value: "on"}}}
	hold := func(most int, budget *limits.Budget, session *rows.Session, sql string, sink func(*rows.Body, []compile.Output) rows.Sink) error {
		t.Helper()
		b := rows.NewBody(nil, true)
		defer b.Release()
		b.Limit(most, budget)
		st := statement(sql, nil, "v")
		return rows.Run(t.Context(), conn, session, rows.Step{Statement: st, Sink: sink(b, st.Output)})
	}
	objects := func(b *rows.Body, o []compile.Output) rows.Sink { return rows.NewObjects(b, o, rows.Options{}) }
	object := func(b *rows.Body, o []compile.Output) rows.Sink { return rows.NewObject(b, o, rows.Options{}) }
	many := "select repeat('x', 1000) as v from generate_series(1, 5000)"
	for name, sink := range map[string]func(*rows.Body, []compile.Output) rows.Sink{"many": objects, "one": object, "scalar": rows.NewScalar, "text": rows.NewText} {
		sql := many
		if name != "many" {
			sql = "select repeat('x', 5000000) as v"
		}
		if err := hold(1<<20, nil, read, sql, sink); !errors.Is(err, rows.ErrTooLarge) {
			t.Errorf("%s: got %v, want ErrTooLarge", name, err)
		}
		wantClean(t, conn)
		budget := limits.NewBudget(2 << 20)
		if err := hold(0, budget, read, sql, sink); !errors.Is(err, rows.ErrNoMemory) {
			t.Errorf("%s: got %v, want ErrNoMemory", name, err)
		}
		if !budget.Take(2 << 20) {
			t.Errorf("%s: the budget is not given back", name)
		}
		if err := hold(64<<20, limits.NewBudget(64<<20), read, sql, sink); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A write is done or not, whenever the answer became too large.
	if err := hold(1<<20, nil, &rows.Session{}, "insert into notes select i from generate_series(1, 100000) i returning repeat('x', 100)", objects); !errors.Is(err, rows.ErrTooLarge) {
		t.Fatalf("got %v, want ErrTooLarge", err)
	}
	if n := value(t, conn, nil, "select count(*) from notes"); n != "100000" {
		t.Errorf("%s records are there", n)
	}
}

func TestLargeRowsCountAgainstTheBudget(t *testing.T) {
	t.Parallel()
	conn := setup(t)
	budget := limits.NewBudget(3 << 20)
	run := func(size int) error {
		b := rows.NewBody(func() (io.Writer, error) { return io.Discard, nil }, false)
		defer b.Release()
		st := statement(fmt.Sprintf("select repeat('x', %d) as v", size), nil, "v")
		return rows.Run(t.Context(), conn, &rows.Session{Memory: budget}, rows.Step{Statement: st, Sink: rows.NewObjects(b, st.Output, rows.Options{})})
	}
	if err := run(4 << 20); !errors.Is(err, rows.ErrNoMemory) {
		t.Errorf("got %v, want ErrNoMemory", err)
	}
	wantClean(t, conn)
	for range 3 {
		if err := run(2 << 20); err != nil {
			t.Error(err)
		}
		wantClean(t, conn)
	}
}

func TestTooLargeRow(t *testing.T) {
	t.Parallel()
	cfg, err := pgconn.ParseConfig(prepared(t, "create table notes (id int, body text)", "insert into notes values (1, repeat('x', 500000))"))
	if err != nil {
		t.Fatal(err)
	}
	cfg.MaxProtocolMessageBodyLen = 1 << 20
	conn, err := pgconn.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	b := rows.NewBody(nil, true)
	defer b.Release()
	st := statement("select body as a, body as b, body as c from notes", nil, "a", "b", "c")
	err = rows.Run(t.Context(), conn, &rows.Session{}, rows.Step{Statement: st, Sink: rows.NewObjects(b, st.Output, rows.Options{})})
	if !errors.Is(err, rows.ErrRowTooLarge) || !conn.IsClosed() {
		t.Errorf("got %v, closed: %v", err, conn.IsClosed())
	}
}
