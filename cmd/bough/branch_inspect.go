package main

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/boughdb/bough/gen/client"
)

func newBranchStatusCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "status <branch>",
		Short:             "Say in short how a branch is",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.completeBranch,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		_, b, got, err := c.branchArg(cmd, args)
		if err != nil {
			return err
		}
		d := &details{}
		d.add("Status", statusCell(b.Status))
		if b.Phase != nil {
			d.add("Phase", text(phaseOf(b)))
		}
		d.add("Age", text(roughly(c.now().Sub(b.CreatedAt))))
		expires := "never"
		if b.ExpiresAt != nil {
			expires = ago(c.now(), *b.ExpiresAt)
		}
		d.add("Expires", text(expires))
		if b.ErrorMessage != nil {
			d.add("Error", cell{*b.ErrorMessage, "31"})
		}
		return c.print(cmd, formatTable, got.body, d)
	}
	return cmd
}

func newBranchActivityCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "activity <branch>",
		Short:             "Show what happened to a branch, latest first",
		Long:              "Show what happened to a branch, latest first. The activity of a branch that was deleted can be\nread by its id.",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.completeBranch,
	}
	limit := cmd.Flags().Int32("limit", 50, "show at most `n` entries, 1 to 100")
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *limit < 1 || *limit > pageSize {
			return usagef("--limit must be 1 to %d", pageSize)
		}
		ctx := cmd.Context()
		a, b, _, err := c.branchArg(cmd, args)
		ref := b.ID.String()
		if hasCode(err, "branch_not_found") {
			// A deleted branch is not found, but its activity is.
			ref = args[0]
		} else if err != nil {
			return err
		}
		list, got, listErr := readAs[client.ActivityList](a.ListBranchActivity(ctx, ref, &client.ListBranchActivityParams{Limit: limit}))
		if listErr != nil {
			return cmp.Or(err, listErr)
		}
		t := &table{columns: []column{
			{title: "WHEN"}, {title: "ACTION"}, {title: "OUTCOME"}, {title: "TOOK"}, {title: "BY", min: 12}, {title: "DETAILS", min: 16, late: true},
		}}
		for _, e := range list.Activity {
			outcome := cell{string(e.Status), "32"}
			if e.Status == client.ActivityEntryStatusFailure {
				outcome.colour = "31"
			}
			took := ""
			if e.DurationMs != nil {
				took = elapsed(time.Duration(*e.DurationMs) * time.Millisecond)
			}
			t.add(text(ago(c.now(), e.CreatedAt)), text(string(e.Action)), outcome, text(took), text(e.UserID), text(properties(e.Details)))
		}
		return c.print(cmd, output.value, got.body, t)
	}
	return cmd
}

// properties returns an object as key=value, in the order of the keys.
func properties(object map[string]any) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(object)) {
		v, ok := object[key].(string)
		if !ok {
			encoded, err := json.Marshal(object[key])
			if err != nil {
				continue
			}
			v = string(encoded)
		}
		parts = append(parts, key+"="+v)
	}
	return strings.Join(parts, " ")
}

func newBranchStatsCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{Use: "stats", Short: "Show the connection pools of the server, by branch", Args: cobra.NoArgs}
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		a, err := c.connect()
		if err != nil {
			return err
		}
		stats, got, err := readAs[client.PoolStatsResponse](a.GetPoolStats(cmd.Context()))
		if err != nil {
			return err
		}
		t := &table{columns: []column{
			{title: "BRANCH", min: 12}, {title: "TOTAL", right: true}, {title: "IDLE", right: true}, {title: "ACQUIRED", right: true},
			{title: "MAX", right: true}, {title: "WAITED", right: true},
		}}
		slugs := slices.SortedFunc(maps.Keys(stats.Pools), func(x, y string) int {
			if (x == mainBranch) != (y == mainBranch) {
				return cmp.Compare(strconv.FormatBool(y == mainBranch), strconv.FormatBool(x == mainBranch))
			}
			return cmp.Compare(x, y)
		})
		for _, slug := range slugs {
			p := stats.Pools[slug]
			t.add(text(slug), text(strconv.Itoa(p.TotalConns)), text(strconv.Itoa(p.IdleConns)), text(strconv.Itoa(p.AcquiredConns)),
				text(strconv.Itoa(p.MaxConns)), text(strconv.FormatInt(p.Waited, 10)))
		}
		return c.print(cmd, output.value, got.body, t)
	}
	return cmd
}
