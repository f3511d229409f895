package auth

// ForgetVerified drops the tokens that were verified, and keeps the keys.
func (t *Tokens) ForgetVerified() {
	t.known.Lock()
	defer t.known.Unlock()
	clear(t.verified)
}
