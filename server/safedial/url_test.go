package safedial_test

import (
	"strings"
	"testing"

	"github.com/boughdb/bough/server/safedial"
)

func TestCheckURL(t *testing.T) {
	t.Parallel()
	local := safedial.Options{AllowLoopback: true, Setting: "the.setting"}
	all := safedial.Options{AllowLoopback: true, AllowPrivate: true}
	for _, tc := range []struct {
		url     string
		opts    safedial.Options
		problem string // what it mentions; "" is none
	}{
		{"https://example.com/hook?a=b", safedial.Options{}, ""},
		{"https://93.184.215.14:8443", safedial.Options{}, ""},
		{"/hook", all, "absolute URL"},
		{"https://", all, "absolute URL"},
		{"https:example.com", all, "absolute URL"},
		{"https://%zz/", all, "absolute URL"},
		{"ftp://example.com/", all, "https://"},
		{"https://example.com:65536/", all, "port"},
		{"https://example.com:0/", all, "port"},
		{"https://u@example.com/", all, "user name"},
		{"https://example.com/#a", all, "fragment"},
		{"http://localhost/", local, ""},
		{"http://127.0.0.1:3000/", local, ""},
		{"https://LOCALHOST./", safedial.Options{Setting: "the.setting"}, "the setting the.setting must allow"},
		{"https://a.localhost/", safedial.Options{}, "own machine"},
		{"https://[::ffff:127.0.0.1]/", safedial.Options{}, "own machine"},
		{"http://example.com/", local, "the.setting"},
		{"http://example.com/", all, ""},
		{"https://10.0.0.1/", local, "10.0.0.1, a private address, which the setting the.setting must allow"},
		{"http://10.0.0.1/", all, ""},
		{"https://169.254.169.254/latest", all, "a link-local address"},
		{"https://[fd00:ec2::254]/", all, "a cloud metadata address"},
		{"https://0.0.0.0/", all, "a special-use address"},
	} {
		got := tc.opts.CheckURL(tc.url)
		if (got == "") != (tc.problem == "") || !strings.Contains(got, tc.problem) {
			t.Errorf("%s: %q, want %q", tc.url, got, tc.problem)
		}
	}
}
