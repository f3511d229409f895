package postgres_test

import (
	"context"
	"errors"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/boughdb/bough/server/pgcopy"
	"github.com/boughdb/bough/server/postgres"
)

// Objects that the copier's own reader does not know are copied by pg_dump where there is one that fits, and named
// where there is none.
func TestUnusualObjectsNeedADump(t *testing.T) {
	t.Parallel()
	const unusual = `create operator class app_int_ops for type int4 using btree as operator 1 <, operator 3 =, operator 5 >, function 1 btint4cmp(int4, int4)`
	without := setup(t)
	execute(t, without.url, unusual)
	somebody := connect(t, without.url)
	request := without.request(t, "schema")
	request.SchemaOnly = true
	var unsupported *pgcopy.UnsupportedError
	_, err := without.Clone(context.Background(), request)
	if !errors.As(err, &unsupported) || len(unsupported.Objects) == 0 {
		t.Errorf("without pg_dump: %v, want the objects by name", err)
	} else if !strings.Contains(err.Error(), "1 sessions of other programs") || !strings.Contains(err.Error(), "pg_dump") {
		t.Errorf("%v does not say what would help", err)
	}
	gone(t, somebody)
	if res, err := without.Clone(context.Background(), request); err != nil || res.Copier != postgres.CopierTemplate {
		t.Errorf("with nobody connected: %+v, %v", res, err)
	}

	dump, err := exec.LookPath("pg_dump")
	if err != nil {
		t.Skip("there is no pg_dump")
	}
	out, err := exec.Command(dump, "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile(`\) (\d+)`).FindSubmatch(out)
	if major, err := strconv.Atoi(string(match[1])); err != nil || major < majorVersion(t) {
		t.Skipf("%s is too old for the server", out)
	}
	with := setup(t, func(c *postgres.ClusterConfig) { c.PGDump = func(int) string { return dump } })
	execute(t, with.url, unusual)
	request = with.request(t, "schema")
	request.SchemaOnly = true
	connect(t, with.url)
	res, err := with.Clone(context.Background(), request)
	if err != nil || res.Copier != "pg_dump" {
		t.Fatalf("with pg_dump: %+v, %v", res, err)
	}
	if n := query[int64](t, with.in(request.Target), "select count(*) from pg_opclass where opcname = 'app_int_ops'"); n != 1 {
		t.Errorf("%d operator classes in the copy", n)
	}
}
