package auth

import "time"

// ForgetVerified drops the tokens that were verified, and keeps the keys.
func (t *Tokens) ForgetVerified() {
	t.known.Lock()
	defer t.known.Unlock()
	clear(t.verified)
}

// AgeKeys makes the public keys older.
func (t *Tokens) AgeKeys(by time.Duration) {
	t.keys.mu.Lock()
	defer t.keys.mu.Unlock()
	t.keys.read = t.keys.read.Add(-by)
}
