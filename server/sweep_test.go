package server_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/gen/client"
	"github.com/boughdb/bough/server/servertest"
)

// What a removed branch left is dropped at the next start; a database of its with another name than Bough gives, those of
// branches that this control database never knew of, of other installations and of nobody stay.
func TestSweepDropsOnlyWhatWasItsOwn(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	p := start(t, i.args, nil)
	branch := createReady(t, p.client(t), "gone")
	ok[*client.DeleteBranchResponse](t, 204)(p.client(t).DeleteBranchWithResponse(t.Context(), "gone", nil))
	p.stop(t)

	installation := servertest.Value[string](t, i.s.Control, "select id::text from installation")
	prefix := "sweep_" + strings.ReplaceAll(uuid.NewString(), "-", "")[:12]
	for name, comment := range map[string]string{
		"renamed": `bough:{"installation":"` + installation + `","branch":"` + branch.ID.String() + `","generation":1,"complete":true}`,
		"unknown": `bough:{"installation":"` + installation + `","branch":"` + uuid.NewString() + `","generation":1,"complete":true}`,
		"foreign": `bough:{"installation":"` + uuid.NewString() + `","branch":"` + branch.ID.String() + `","generation":1,"complete":true}`,
		"nobody":  "a comment of its owner",
	} {
		database := pgx.Identifier{prefix + "_" + name}.Sanitize()
		i.s.Exec(t, i.s.Main, "create database "+database)
		i.s.Exec(t, i.s.Main, "comment on database "+database+" is '"+comment+"'")
		t.Cleanup(func() { drop(t, i.s.Main, "database if exists "+database+" with (force)") })
	}
	for _, suffix := range []string{"", "_new", "_old"} {
		database := pgx.Identifier{branch.DatabaseName + suffix}.Sanitize()
		i.s.Exec(t, i.s.Main, "create database "+database)
		i.s.Exec(t, i.s.Main, "comment on database "+database+` is 'bough:{"installation":"`+installation+`","branch":"`+branch.ID.String()+`","generation":1,"complete":true}'`)
		t.Cleanup(func() { drop(t, i.s.Main, "database if exists "+database+" with (force)") })
	}
	p = start(t, i.args, nil)
	eventually(t, "the end of what the branch left", func() bool { return databaseNames(t, i.s.Main, branch.DatabaseName) == "" })
	if got, want := databaseNames(t, i.s.Main, prefix), prefix+"_foreign "+prefix+"_nobody "+prefix+"_renamed "+prefix+"_unknown"; got != want {
		t.Errorf("databases: %s, want %s", got, want)
	}
	eventually(t, "a word about the renamed one", func() bool { return strings.Contains(p.log.String(), "was renamed, and is left alone") })
	eventually(t, "a word about the unknown one", func() bool { return strings.Contains(p.log.String(), "its branch is unknown") })
}
