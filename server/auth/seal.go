package auth

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
)

// MinEncryptionKey is the least length of auth.encryption_key.
const MinEncryptionKey = 32

// Sealer encrypts what must not be readable in a copy of the control database. The zero value does not encrypt.
type Sealer struct {
	aead cipher.AEAD
	what string
}

// NewSealer returns a sealer of what is named, such as "signing keys", each with a key of its own that is derived from
// the secret. No secret encrypts nothing.
func NewSealer(secret, what string) (Sealer, error) {
	if secret == "" {
		return Sealer{what: what}, nil
	}
	key, err := hkdf.Key(sha256.New, []byte(secret), nil, "bough "+what, 32)
	if err != nil {
		return Sealer{}, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return Sealer{}, err
	}
	aead, err := cipher.NewGCM(block)
	return Sealer{aead, what}, err
}

// Seal returns the text to store, and whether it is encrypted. name is bound to it, so that rows cannot be exchanged.
func (s Sealer) Seal(plain []byte, name string) ([]byte, bool) {
	if s.aead == nil {
		return plain, false
	}
	nonce := make([]byte, s.aead.NonceSize())
	_, _ = rand.Read(nonce) // never fails (crypto/rand)
	return s.aead.Seal(nonce, nonce, plain, []byte(name)), true
}

// Open returns what was sealed under the name.
func (s Sealer) Open(stored []byte, encrypted bool, name string) ([]byte, error) {
	if !encrypted {
		return stored, nil
	}
	errSealed := fmt.Errorf("the %s in the control database are encrypted with another auth.encryption_key, or with one where none is set now", s.what)
	if s.aead == nil || len(stored) < s.aead.NonceSize() {
		return nil, errSealed
	}
	n := s.aead.NonceSize()
	plain, err := s.aead.Open(nil, stored[:n], stored[n:], []byte(name))
	if err != nil {
		return nil, errSealed
	}
	return plain, nil
}
