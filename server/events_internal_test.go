package server

import "testing"

func TestOnlyALocalServerHasLocalWebhooks(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		listen, public string
		want           bool
	}{
		{"127.0.0.1:8080", "", true},
		{"[::1]:8080", "", true},
		{"localhost:8080", "http://localhost:8080", true},
		{"127.0.0.1:8080", "https://bough.example.com", false},
		{"0.0.0.0:8080", "", false},
		{":8080", "", false},
		{"[::]:8080", "http://localhost:8080", false},
		{"192.168.1.5:8080", "", false},
		{"nonsense", "", false},
	} {
		cfg := Config{Listen: tc.listen, PublicBaseURL: tc.public}
		if got := cfg.servesThisMachineOnly(); got != tc.want {
			t.Errorf("listen %q, public URL %q: %v", tc.listen, tc.public, got)
		}
	}
}
