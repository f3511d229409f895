package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
)

// localProfile is the profile of the server that `bough serve` starts on this machine.
const localProfile = "local"

// profile is a server and how to sign in to it.
type profile struct {
	BaseURL    string `yaml:"base_url"`
	ServiceKey string `yaml:"service_key,omitempty"`
	ClientKey  string `yaml:"client_key,omitempty"`
	Token      string `yaml:"token,omitempty"`
	// Session is of a user who signed in by address; its tokens are renewed as they expire.
	Session *sessionTokens `yaml:"session,omitempty"`
}

func (p profile) credential() credential {
	switch {
	case p.ServiceKey != "":
		return credential{serviceKey, p.ServiceKey}
	case p.ClientKey != "":
		return credential{clientKey, p.ClientKey}
	case p.Token != "":
		return credential{token, p.Token}
	case p.Session != nil:
		return credential{session, p.Session.Email}
	}
	return credential{}
}

// newProfile returns the profile of a server with one credential.
func newProfile(baseURL string, cred credential) profile {
	p := profile{BaseURL: baseURL}
	switch cred.kind {
	case serviceKey:
		p.ServiceKey = cred.value
	case clientKey:
		p.ClientKey = cred.value
	case token:
		p.Token = cred.value
	}
	return p
}

// profiles is the content of the client's configuration file.
type profiles struct {
	Current  string             `yaml:"current,omitempty"`
	Profiles map[string]profile `yaml:"profiles,omitempty"`
}

func (p *profiles) names() []string { return slices.Sorted(maps.Keys(p.Profiles)) }

// named returns the profile called name, or an error that lists those there are.
func (p *profiles) named(name string) (profile, error) {
	found, ok := p.Profiles[name]
	if !ok {
		return profile{}, hintError{fmt.Errorf("there is no profile %q", name), `"bough profile list" shows the profiles`}
	}
	return found, nil
}

var profileName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.:-]{0,99}$`)

// profilesPath returns where the profiles are kept.
func profilesPath(getenv func(string) string, userConfigDir func() (string, error)) (string, error) {
	if path := getenv("BOUGH_CONFIG"); path != "" {
		return path, nil
	}
	dir, err := userConfigDir()
	if err != nil {
		return "", hintError{fmt.Errorf("looking for the configuration: %w", err), "name a file in BOUGH_CONFIG"}
	}
	return filepath.Join(dir, "bough", "config.yaml"), nil
}

func (c *cli) loadProfiles() (*profiles, string, error) {
	path, err := profilesPath(c.getenv, c.userConfigDir)
	if err != nil {
		return nil, "", err
	}
	p, err := readProfiles(path)
	return p, path, err
}

// readProfiles returns the profiles in the file at path; none when there is no such file.
func readProfiles(path string) (*profiles, error) {
	p := &profiles{}
	content, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading the profiles: %w", err)
	}
	dec := yaml.NewDecoder(bytes.NewReader(content))
	dec.KnownFields(true)
	if err := dec.Decode(p); err != nil && !errors.Is(err, io.EOF) {
		return nil, hintError{fmt.Errorf("reading the profiles in %s: %w", path, err), "correct the file or remove it"}
	}
	if p.Profiles == nil {
		p.Profiles = map[string]profile{}
	}
	return p, nil
}

// save writes the profiles to path in one step, for the user's eyes only.
func (p *profiles) save(path string) error {
	content, err := yaml.Marshal(p)
	if err != nil {
		return err
	}
	// A link, as people have who keep their configuration elsewhere, stays a link.
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		path = resolved
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("writing the profiles: %w", err)
	}
	// CreateTemp makes files with mode 0600.
	tmp, err := os.CreateTemp(dir, ".config-*.yaml")
	if err != nil {
		return fmt.Errorf("writing the profiles: %w", err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	_, err = tmp.Write(content)
	if err == nil {
		err = tmp.Sync()
	}
	err = errors.Join(err, tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("writing the profiles: %w", err)
	}
	return nil
}

// saveLocalProfile keeps the service key of the server on this machine in the profile "local" and returns the file it
// is in. The profile becomes the current one unless another is.
func saveLocalProfile(baseURL, serviceKey string) (path string, err error) {
	path, err = profilesPath(os.Getenv, os.UserConfigDir)
	if err != nil {
		return "", err
	}
	return path, saveLocalProfileTo(path, baseURL, serviceKey)
}

func saveLocalProfileTo(path, baseURL, serviceKey string) error {
	baseURL, err := cleanBaseURL(baseURL)
	if err != nil {
		return err
	}
	p, err := readProfiles(path)
	if err != nil {
		return err
	}
	if _, ok := p.Profiles[p.Current]; !ok {
		p.Current = localProfile
	}
	p.Profiles[localProfile] = profile{BaseURL: baseURL, ServiceKey: serviceKey}
	return p.save(path)
}

// completeProfiles completes the names of profiles.
func (c *cli) completeProfiles(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	p, _, err := c.loadProfiles()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []cobra.Completion
	for _, name := range p.names() {
		names = append(names, cobra.CompletionWithDesc(name, harmless(p.Profiles[name].BaseURL)))
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
