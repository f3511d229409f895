package auth

import (
	"bytes"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Vault encrypts secrets of others that the server must be able to read again, such as the secret of a webhook, before
// they go into the control database. Unlike signing keys, which can be made anew, they are never stored readable: where
// there is no auth.encryption_key, a key is made once and kept in a file, outside of the database and its backups.
type Vault struct {
	purpose string
	file    string

	mu   sync.Mutex
	keys []vaultKey // the first one encrypts, all decrypt
}

type vaultKey struct {
	id     []byte
	sealer Sealer
}

const vaultKeyID = 8 // bytes

// ErrSealed is the error of a secret that no key opens which the server has.
var ErrSealed = errors.New("the secret was encrypted with a key that this server does not have: it needs the same auth.encryption_key or data directory as the server that stored it")

// NewVault returns a vault for one purpose. The key comes from encryptionKey, or without one from the file, which is
// made when it is first needed. With both, what the file's key encrypted can still be read.
func NewVault(purpose, encryptionKey, file string) (*Vault, error) {
	v := &Vault{purpose: purpose, file: file}
	if encryptionKey != "" {
		if err := v.add(encryptionKey); err != nil {
			return nil, err
		}
	}
	switch secret, err := readKeyFile(file); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	default:
		if err := v.add(secret); err != nil {
			return nil, err
		}
	}
	return v, nil
}

func (v *Vault) add(secret string) error {
	s, err := NewSealer(secret, v.purpose)
	if err != nil {
		return err
	}
	id, err := hkdf.Key(sha256.New, []byte(secret), nil, v.purpose+" key id", vaultKeyID)
	if err != nil {
		return err
	}
	v.keys = append(v.keys, vaultKey{id, s})
	return nil
}

// Seal encrypts a secret. name is bound to it, so that rows cannot be exchanged.
func (v *Vault) Seal(secret, name string) ([]byte, error) {
	key, err := v.current()
	if err != nil {
		return nil, err
	}
	sealed, _ := key.sealer.Seal([]byte(secret), name)
	return append(bytes.Clone(key.id), sealed...), nil
}

// Open decrypts what Seal returned for the name.
func (v *Vault) Open(sealed []byte, name string) (string, error) {
	if len(sealed) < vaultKeyID {
		return "", ErrSealed
	}
	key, ok := v.find(sealed[:vaultKeyID])
	if !ok {
		return "", ErrSealed
	}
	plain, err := key.sealer.Open(sealed[vaultKeyID:], true, name)
	if err != nil {
		return "", ErrSealed
	}
	return string(plain), nil
}

// find returns the key with the id. The file may have been made by another process, or for another purpose, since the
// vault was.
func (v *Vault) find(id []byte) (vaultKey, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	known := func() (vaultKey, bool) {
		i := slices.IndexFunc(v.keys, func(k vaultKey) bool { return bytes.Equal(k.id, id) })
		if i < 0 {
			return vaultKey{}, false
		}
		return v.keys[i], true
	}
	if key, ok := known(); ok || len(v.keys) > 0 {
		return key, ok
	}
	secret, err := readKeyFile(v.file)
	if err != nil || v.add(secret) != nil {
		return vaultKey{}, false
	}
	return known()
}

// Renew returns a secret sealed with the key that is used now, nil where it is already or where there is none. The error
// is ErrSealed when no key opens it.
func (v *Vault) Renew(sealed []byte, name string) ([]byte, error) {
	if sealed == nil {
		return nil, nil
	}
	plain, err := v.Open(sealed, name)
	if err != nil || !v.outdated(sealed) {
		return nil, err
	}
	return v.Seal(plain, name)
}

// outdated reports whether a secret was sealed with another key than the one that is used now.
func (v *Vault) outdated(sealed []byte) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.keys) > 0 && !bytes.HasPrefix(sealed, v.keys[0].id)
}

// current returns the key that encrypts, and makes the file where there is none.
func (v *Vault) current() (vaultKey, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.keys) == 0 {
		secret, err := makeKeyFile(v.file)
		if err != nil {
			return vaultKey{}, fmt.Errorf("making a key for secrets: %w", err)
		}
		if err := v.add(secret); err != nil {
			return vaultKey{}, err
		}
	}
	return v.keys[0], nil
}

func readKeyFile(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	secret := strings.TrimSpace(string(data))
	if len(secret) < MinEncryptionKey {
		return "", fmt.Errorf("%s must hold a key of at least %d characters", path, MinEncryptionKey)
	}
	return secret, nil
}

// makeKeyFile writes a new key, or returns the one that another process wrote first: a link is made to a whole file, or
// not at all.
func makeKeyFile(path string) (string, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	random := make([]byte, 32)
	_, _ = rand.Read(random)                              // never fails (crypto/rand)
	f, err := os.CreateTemp(filepath.Dir(path), ".key-*") // readable for its owner only
	if err != nil {
		return "", err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(base64.RawURLEncoding.EncodeToString(random) + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return readKeyFile(path)
}
