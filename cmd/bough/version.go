package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the build of a release: -ldflags "-X main.version=1.2.3".
var version string

// programVersion returns the version of this program, "dev" where it has none.
func programVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "dev"
}

// build is what this program was made from.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Modified bool   `json:"modified"`
	Time     string `json:"time"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func currentBuild() build {
	b := build{Version: programVersion(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			b.Commit = setting.Value
		case "vcs.modified":
			b.Modified = setting.Value == "true"
		case "vcs.time":
			b.Time = setting.Value
		}
	}
	return b
}

func newVersionCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{Use: "version", Short: "Print the version of this program", Args: cobra.NoArgs}
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		b := currentBuild()
		if output.value == formatTable {
			commit := b.Commit
			switch {
			case commit == "":
				commit = "unknown"
			case b.Modified:
				commit += " with changes"
			}
			return c.printLine(cmd, fmt.Sprintf("bough %s (commit %s, %s, %s)", b.Version, commit, b.Go, b.Platform))
		}
		body, err := json.Marshal(b)
		if err != nil {
			return err
		}
		return c.print(cmd, output.value, body, nil)
	}
	return cmd
}
