package server_test

import (
	"fmt"
	"testing"

	"github.com/boughdb/bough/gen/client"
	"github.com/boughdb/bough/server/postgres"
	"github.com/boughdb/bough/server/servertest"
)

// Killed at any step of the making of a schema image, the next process finishes the branch, with one image that is
// complete and no rows in either.
func TestKilledWhileTheSchemaImageIsMade(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ point, strategy string }{
		{"creating:image_created", "auto"}, {"creating:image_filled", "auto"}, {"creating:image_completed", "auto"},
		{"creating:image_filled", "copy"}, {"creating:cloned", "auto"}, {"creating:completed", "auto"},
	} {
		t.Run(tc.point+" "+tc.strategy, func(t *testing.T) {
			t.Parallel()
			i := newInstallation(t)
			args := append(i.args, "--branching.strategy", tc.strategy)
			faulty := start(t, args, []string{"BOUGH_FAULT_POINT=" + tc.point})
			create := func(p *process, name string) *client.CreatedBranch {
				mode := client.DataCloneModeSchemaOnly
				return ok[*client.CreateBranchResponse](t, 201)(p.client(t).CreateBranchWithResponse(t.Context(), &client.CreateBranchParams{},
					client.CreateBranchRequest{Name: name, DataCloneMode: &mode})).JSON201
			}
			ready := func(p *process, name string) {
				t.Helper()
				eventually(t, "branch "+name, func() bool {
					got := ok[*client.GetBranchResponse](t, 200)(p.client(t).GetBranchWithResponse(t.Context(), name)).JSON200
					if got.Status == client.BranchStatusError {
						t.Fatalf("%s: %s", name, *got.ErrorMessage)
					}
					return got.Status == client.BranchStatusReady
				})
				if got := i.rows(t, connection(t, p.client(t), name)); got != "0/0" {
					t.Errorf("rows of %s: %s", name, got)
				}
			}
			create(faulty, "demo")
			faulty.waitDead(t)
			p := start(t, args, nil)
			ready(p, "demo")
			create(p, "second")
			ready(p, "second")
			main := ok[*client.GetBranchResponse](t, 200)(p.client(t).GetBranchWithResponse(t.Context(), "main")).JSON200
			image := postgres.ImageName(main.ID)
			if n := servertest.Value[int64](t, i.s.Main, fmt.Sprintf(`
				select count(*) from pg_database d
				where d.datname like '%s%%' and not d.datallowconn and shobj_description(d.oid, 'pg_database') like '%%"complete":true%%"kind":"image"%%'`, image)); n != 1 {
				t.Errorf("%d complete images", n)
			}
			entries := ok[*client.ListBranchActivityResponse](t, 200)(p.client(t).ListBranchActivityWithResponse(t.Context(), "second", nil)).JSON200.Activity
			told := false
			for _, e := range entries {
				if e.Action == client.BranchActionCloned {
					told = true
					if e.Details["strategy"] != "image" || e.Details["image_reused"] != true || e.Details["pause_ms"] != 0.0 {
						t.Errorf("details: %v", e.Details)
					}
				}
			}
			if !told {
				t.Errorf("activity: %v", entries)
			}
		})
	}
}

// A branch that is a parent has an image of its own, which goes with it.
func TestImageGoesWithItsBranch(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"", "deleting:dropping", "deleting:dropped"} {
		t.Run("killed at "+point, func(t *testing.T) {
			t.Parallel()
			i := newInstallation(t)
			p := start(t, i.args, nil)
			parent := createReady(t, p.client(t), "parent")
			image := postgres.ImageName(parent.ID)
			wait, mode := "wait=60", client.DataCloneModeSchemaOnly
			child := ok[*client.CreateBranchResponse](t, 201)(p.client(t).CreateBranchWithResponse(t.Context(), &client.CreateBranchParams{Prefer: &wait},
				client.CreateBranchRequest{Name: "child", DataCloneMode: &mode, ParentBranchID: &parent.ID})).JSON201
			if child.Status != client.BranchStatusReady || databaseNames(t, i.s.Main, image) != image {
				t.Fatalf("child is %s, images: %q", child.Status, databaseNames(t, i.s.Main, image))
			}
			ok[*client.DeleteBranchResponse](t, 204)(p.client(t).DeleteBranchWithResponse(t.Context(), "child", nil))
			if point != "" {
				p.stop(t)
				p = start(t, i.args, []string{"BOUGH_FAULT_POINT=" + point})
			}
			c := p.client(t)
			done := make(chan struct{})
			go func() { defer close(done); _, _ = c.DeleteBranchWithResponse(t.Context(), "parent", nil) }()
			if point != "" {
				p.waitDead(t)
				start(t, i.args, nil)
			}
			<-done
			eventually(t, "the end of the branch and its image", func() bool {
				return databaseNames(t, i.s.Main, parent.DatabaseName) == "" && databaseNames(t, i.s.Main, image) == ""
			})
		})
	}
}
