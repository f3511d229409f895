package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/boughdb/bough/server"
)

// serverSettings are the settings of the commands that need the server's configuration.
type serverSettings struct {
	cfg      server.Config
	settings *pflag.FlagSet
	file     string
}

const defaultConfigFile = "bough.yaml"

func newServerSettings() *serverSettings {
	s := &serverSettings{}
	s.settings = s.cfg.Settings()
	return s
}

func (s *serverSettings) addFlags(cmd *cobra.Command) {
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&s.file, "config", "", "configuration file (default "+defaultConfigFile+" in this directory, if there is one)")
	cmd.Flags().AddFlagSet(s.settings)
}

// load completes the flags with environment and file.
func (s *serverSettings) load() (map[string]server.Origin, error) {
	file := s.file
	if file == "" {
		if _, err := os.Stat(defaultConfigFile); err == nil {
			file = defaultConfigFile
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	origins, err := s.cfg.Load(s.settings, file, os.LookupEnv)
	if err != nil {
		return nil, hintError{fmt.Errorf("the configuration is not right: %w", err), `"bough serve --help" lists the settings, "bough config" prints those in force`}
	}
	return origins, nil
}

func newConfigCommand() *cobra.Command {
	s := newServerSettings()
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print the server's configuration and where each value comes from",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			origins, err := s.load()
			if err != nil {
				return err
			}
			s.settings.VisitAll(func(f *pflag.Flag) {
				fmt.Fprintf(cmd.OutOrStdout(), "%-34s = %-24s # %s\n", server.Key(f.Name), shown(f), origins[f.Name])
			})
			return nil
		},
	}
	s.addFlags(cmd)
	return cmd
}

// shown is a setting's value, without the secrets in it.
func shown(f *pflag.Flag) string {
	v := f.Value.String()
	switch {
	case v == "" || v == "[]":
		return `""`
	case !slices.Contains(server.Secrets, f.Name):
		return v
	case strings.Contains(v, "://"):
		if u, err := url.Parse(v); err == nil {
			return u.Redacted()
		}
	}
	return "(hidden)"
}
