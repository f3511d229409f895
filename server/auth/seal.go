package auth

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
)

// MinEncryptionKey is the least length of auth.encryption_key.
const MinEncryptionKey = 32

// sealer encrypts what must not be readable in a copy of the control database. The zero value does not encrypt.
type sealer struct{ aead cipher.AEAD }

func newSealer(secret string) (sealer, error) { return newSealerFor(secret, "bough signing keys") }

// newSealerFor returns a sealer whose key is made from the secret for the purpose alone.
func newSealerFor(secret, purpose string) (sealer, error) {
	if secret == "" {
		return sealer{}, nil
	}
	key, err := hkdf.Key(sha256.New, []byte(secret), nil, purpose, 32)
	if err != nil {
		return sealer{}, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return sealer{}, err
	}
	aead, err := cipher.NewGCM(block)
	return sealer{aead}, err
}

// seal returns the text to store, and whether it is encrypted. name is bound to it, so that rows cannot be exchanged.
func (s sealer) seal(plain []byte, name string) ([]byte, bool) {
	if s.aead == nil {
		return plain, false
	}
	nonce := make([]byte, s.aead.NonceSize())
	_, _ = rand.Read(nonce) // never fails (crypto/rand)
	return s.aead.Seal(nonce, nonce, plain, []byte(name)), true
}

var errSealed = errors.New("the private signing keys are encrypted with another auth.encryption_key, or with one where none is set now")

func (s sealer) open(stored []byte, encrypted bool, name string) ([]byte, error) {
	if !encrypted {
		return stored, nil
	}
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
