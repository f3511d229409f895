package auth_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/boughdb/bough/server/auth"
)

const vaultSecret = "hunter2 hunter2 hunter2"

func newVault(t *testing.T, key, file string) *auth.Vault {
	t.Helper()
	v, err := auth.NewVault("test", key, file)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestVaultKeepsItsKeyOutsideOfWhatItSeals(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "keys", "secrets.key")
	v := newVault(t, "", file)
	if _, err := os.Stat(file); err == nil {
		t.Error("a key was made before it was needed")
	}
	sealed, err := v.Seal(vaultSecret, "a")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(sealed), "hunter2") {
		t.Error("the secret can be read")
	}
	again, _ := v.Seal(vaultSecret, "a")
	if string(again) == string(sealed) {
		t.Error("the same secret is sealed the same way twice")
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("key file: %v, %v", info, err)
	}
	if got, err := newVault(t, "", file).Open(sealed, "a"); err != nil || got != vaultSecret {
		t.Errorf("the next process reads %q, %v", got, err)
	}
	other := newVault(t, "", filepath.Join(t.TempDir(), "secrets.key"))
	for name, open := range map[string]func() (string, error){
		"for another name": func() (string, error) { return v.Open(sealed, "b") },
		"altered":          func() (string, error) { return v.Open(append(sealed[:len(sealed)-1:len(sealed)-1], 0), "a") },
		"too short":        func() (string, error) { return v.Open(sealed[:4], "a") },
		"without a key":    func() (string, error) { return other.Open(sealed, "a") },
	} {
		if got, err := open(); !errors.Is(err, auth.ErrSealed) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	// A key that was lost is told, even by a vault that has none yet.
	if got, err := other.Renew(sealed, "a"); got != nil || !errors.Is(err, auth.ErrSealed) {
		t.Errorf("sealed anew without the key: %x, %v", got, err)
	}
}

func TestVaultTurnsToTheEncryptionKey(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "secrets.key")
	before, err := newVault(t, "", file).Seal(vaultSecret, "a")
	if err != nil {
		t.Fatal(err)
	}
	v := newVault(t, strings.Repeat("k", 32), file)
	if got, err := v.Open(before, "a"); err != nil || got != vaultSecret {
		t.Errorf("with both keys: %q, %v", got, err)
	}
	now, err := v.Renew(before, "a")
	if err != nil || now == nil {
		t.Fatalf("sealed anew: %x, %v", now, err)
	}
	for name, sealed := range map[string][]byte{"a new one": now, "none": nil} {
		if again, err := v.Renew(sealed, "a"); again != nil || err != nil {
			t.Errorf("%s sealed anew: %x, %v", name, again, err)
		}
	}
	elsewhere := newVault(t, strings.Repeat("k", 32), filepath.Join(t.TempDir(), "none"))
	if got, err := elsewhere.Open(now, "a"); err != nil || got != vaultSecret {
		t.Errorf("on another machine with the encryption key: %q, %v", got, err)
	}
}

func TestVaultsOfManyProcessesAgreeOnOneKey(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "secrets.key")
	sealed := make([][]byte, 8)
	var wg sync.WaitGroup
	for i := range sealed {
		v := newVault(t, "", file)
		wg.Go(func() { sealed[i], _ = v.Seal(vaultSecret, "a") })
	}
	wg.Wait()
	v := newVault(t, "", file)
	for _, s := range sealed {
		if got, err := v.Open(s, "a"); err != nil || got != vaultSecret {
			t.Errorf("%q, %v", got, err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(file), ".key-*")); left != nil {
		t.Errorf("left behind: %v", left)
	}
	if err := os.WriteFile(file, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := auth.NewVault("test", "", file); err == nil || !strings.Contains(err.Error(), "32 characters") {
		t.Errorf("a key file with a short key: %v", err)
	}
}

// A vault that was there before the key's file reads what another sealed with it.
func TestVaultFindsTheKeyThatAnotherMade(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "secrets.key")
	reads, writes := newVault(t, "", file), newVault(t, "", file)
	sealed, err := writes.Seal("hunter2", "a")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := reads.Open(sealed, "a"); err != nil || got != "hunter2" {
		t.Errorf("%q, %v", got, err)
	}
}
