package server

import (
	"fmt"
	"path/filepath"

	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/repohost"
)

// newRepohost makes the service that lets branches follow pull requests. Its secrets are encrypted with
// auth.encryption-key, or with a key that is kept beside the data.
func (s *server) newRepohost() error {
	vault, err := auth.NewVault("bough repohost secrets", s.cfg.Auth.EncryptionKey, filepath.Join(s.cfg.DataDir, "keys", "secrets.key"))
	if err != nil {
		return fmt.Errorf("the key for secrets: %w", err)
	}
	s.repohost = repohost.New(s.planes.Control, s.branches, vault, s.log)
	return nil
}
