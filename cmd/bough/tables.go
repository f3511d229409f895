package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/boughdb/bough/gen/client"
)

const tablesLong = `List the tables and views that you may use, on main or on a branch, with the path
under which each is served.`

func newTablesCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{Use: "tables", Short: "List the tables that the API serves", Long: tablesLong, Args: cobra.NoArgs}
	branch := cmd.Flags().StringP("branch", "b", mainBranch, "the branch: its slug or id")
	completeWith(cmd, "branch", c.completeBranches)
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		a, err := c.connect()
		if err != nil {
			return err
		}
		params := client.ListTablesParams{}
		if *branch != mainBranch {
			params.XBranch = branch
		}
		list, got, err := readAs[client.TableList](a.ListTables(cmd.Context(), &params))
		if err != nil {
			return err
		}
		t := &table{columns: []column{
			{title: "TABLE"}, {title: "KIND"}, {title: "PATH"}, {title: "KEY"}, {title: "COLUMNS", min: 12, optional: true},
			{title: "MAY", optional: true},
		}}
		for _, info := range list.Tables {
			name := info.Name
			if info.Schema != "public" {
				name = info.Schema + "." + name
			}
			columns := make([]string, len(info.Columns))
			for i, col := range info.Columns {
				columns[i] = col.Name
			}
			t.add(text(name), text(strings.ReplaceAll(string(info.Kind), "_", " ")), text(info.Path), text(strings.Join(info.PrimaryKey, ",")),
				text(strings.Join(columns, ",")), text(operationsOf(info)))
		}
		return c.print(cmd, output.value, got.body, t)
	}
	return cmd
}

// operationsOf abbreviates what may be done with a table, as in "read, write".
func operationsOf(info client.TableInfo) string {
	var may []string
	if slices.Contains(info.Operations, client.TableInfoOperationsSelect) {
		may = append(may, "read")
	}
	if len(info.Operations) > len(may) {
		may = append(may, "write")
	}
	return strings.Join(may, ", ")
}
