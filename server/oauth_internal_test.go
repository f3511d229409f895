package server

import "testing"

func TestNobodyConnectsToEverywhere(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"": true, "0.0.0.0": true, "::": true, "127.0.0.1": false, "::1": false, "localhost": false, "192.0.2.1": false, "bough.example": false,
	} {
		if got := isEverywhere(host); got != want {
			t.Errorf("%q: %v, want %v", host, got, want)
		}
	}
}
