package server

import (
	"fmt"
	"path/filepath"

	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/repohost"
)

// vault returns what encrypts others' secrets for a purpose: with auth.encryption-key, or with a key that is kept beside
// the data.
func (c *Config) vault(purpose string) (*auth.Vault, error) {
	vault, err := auth.NewVault(purpose, c.Auth.EncryptionKey, filepath.Join(c.DataDir, "keys", "secrets.key"))
	if err != nil {
		return nil, fmt.Errorf("the key for secrets: %w", err)
	}
	return vault, nil
}

// newRepohost makes the service that lets branches follow pull requests.
func (s *server) newRepohost() error {
	vault, err := s.cfg.vault("repohost secrets")
	if err != nil {
		return err
	}
	s.repohost = repohost.New(s.planes.Control, s.branches, vault, s.cfg.targets(), s.log)
	return nil
}
