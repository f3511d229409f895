package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

func TestHelp(t *testing.T) {
	t.Parallel()
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		for _, child := range cmd.Commands() {
			visit(child)
		}
		if cmd.Hidden {
			return
		}
		path := strings.Fields(cmd.CommandPath())
		t.Run(strings.Join(path, "_"), func(t *testing.T) {
			w := setup(t)
			got := w.ok(t, append(path[1:], "--help")...)
			golden(t, "help/"+strings.Join(path, "_"), got)
			if cmd.Parent() != nil && path[1] != "completion" {
				if diff := cmp.Diff(got, w.ok(t, append([]string{"help"}, path[1:]...)...)); diff != "" {
					t.Errorf("bough help differs (-want +got):\n%s", diff)
				}
			}
		})
	}
	visit(newRootCommand(setup(t).cli))
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	const user = "0191d9a0-5f0e-7c5e-9a52-100000000901"
	for _, test := range []struct {
		args string
		code int
		want string // in stderr
	}{
		{"", exitOK, ""},
		{"branch", exitOK, ""},
		{"--version", exitOK, ""},
		{"version -o json", exitOK, ""},
		{"nosuch", exitUsage, `unknown command "nosuch" for "bough"`},
		{"brunch", exitUsage, `did you mean "branch"?`},
		{"branch nosuch", exitUsage, `Run "bough branch --help" for usage.`},
		{"branch lst", exitUsage, `did you mean "get" or "list"?`},
		{"help nosuch", exitUsage, "unknown command"},
		{"branch list --nosuch", exitUsage, `Run "bough branch list --help" for usage.`},
		{"branch list extra", exitUsage, "unknown command"},
		{"branch list -o xml", exitUsage, "must be one of table, json, yaml"},
		{"branch list --status asleep", exitUsage, "must be one of creating, ready"},
		{"branch list --limit -1", exitUsage, "must not be negative"},
		{"branch list --limit many", exitUsage, "invalid argument"},
		{"branch get", exitUsage, "accepts 1 arg(s), received 0"},
		{"branch get a b", exitUsage, "accepts 1 arg(s), received 2"},
		{"branch create", exitUsage, "accepts 1 arg(s)"},
		{"branch create x --clone-data everything", exitUsage, "must be one of schema_only, full_clone, seed_data"},
		{"branch create x --type other", exitUsage, "must be one of preview, persistent"},
		{"branch create x --from nosuch", exitFailed, `--from: there is no branch "nosuch"`},
		{"branch update demo", exitUsage, "nothing to change"},
		{"branch delete demo --children eat", exitUsage, "must be one of orphan, cascade"},
		{"branch delete demo --force", exitFailed, "--children orphan"},
		{"branch delete main --force", exitFailed, "main cannot be deleted\n(cannot_delete_main, request 6a0b)"},
		{"branch activity demo --limit 101", exitUsage, "1 to 100"},
		{"branch access grant demo me", exitUsage, "no user id"},
		{"branch access grant nosuch " + user, exitFailed, "branch_not_found"},
		{"keys create --name x", exitUsage, "--type"},
		{"keys create --type client --name x --scopes read:everything", exitUsage, `no scope "read:everything"`},
		{"keys revoke x", exitUsage, "no key id"},
		{"webhooks create", exitUsage, "accepts 1 arg(s)"},
		{"webhooks create https://example.com --events branch.gone", exitUsage, `no event "branch.gone"`},
		{"webhooks create https://example.com --own-secret", exitFailed, "no secret was given"},
		{"webhooks update x --enable", exitUsage, "no webhook id"},
		{"webhooks update 0191d9a0-5f0e-7c5e-9a52-100000000800", exitUsage, "nothing to change"},
		{"webhooks update 0191d9a0-5f0e-7c5e-9a52-100000000800 --enable --disable", exitUsage, "cannot be together"},
		{"webhooks delete 0191d9a0-5f0e-7c5e-9a52-100000000800", exitUsage, "--force"},
		{"webhooks test 0191d9a0-5f0e-7c5e-9a52-100000000801", exitFailed, "webhook.test was not delivered: 500 Internal Server Error; it is tried again in 5s"},
		{"webhooks redeliver x", exitUsage, "no delivery id"},
		{"webhooks deliveries --status lost", exitUsage, "must be one of pending"},
		{"users create", exitUsage, "accepts 1 arg(s)"},
		{"users create x@example.com --role root", exitUsage, "must be one of authenticated, admin"},
		{"users set-role ada@example.com root", exitUsage, `no role "root"`},
		{"users set-role nobody@example.com admin", exitFailed, `there is no user "nobody@example.com"`},
		{"users delete ada@example.com", exitUsage, "--force"},
		{"repohost set", exitUsage, "accepts 1 arg(s)"},
		{"repohost set acme/shop --provider bitbucket", exitUsage, "must be one of github, gitea, gitlab, none"},
		{"repohost set acme/shop --webhook-secret a --webhook-secret-file b", exitUsage, "not both"},
		{"repohost set acme/shop --webhook-secret-file - --api-token-file -", exitUsage, "one secret"},
		{"repohost set acme/shop --webhook-secret-file testdata/nosuch", exitFailed, "nosuch"},
		{"repohost delete acme/shop", exitUsage, "--force"},
		{"repohost delete acme/none --force", exitFailed, "there is no configuration"},
		{"repohost deliveries --status gone", exitUsage, "must be one of accepted, done, failed, ignored"},
		{"login --email a@example.com --token b", exitUsage, "not both"},
		{"login --magic-link", exitUsage, "needs --email"},
		{"sql select", exitUsage, "after -c"},
		{"sql -c select -f x", exitUsage, "one of -c, -f and -"},
		{"sql -f testdata/nosuch.sql", exitFailed, "nosuch.sql"},
		{"psql a b", exitUsage, "at most 1 arg(s)"},
		{"login", exitUsage, "no terminal"},
		{"login --service-key a --token b", exitUsage, "give one of"},
		{"logout", exitFailed, "no profile is current"},
		{"profile use nosuch", exitFailed, `there is no profile "nosuch"`},
		{"--profile nosuch branch list", exitFailed, `there is no profile "nosuch"`},
		{"--base-url example.com branch list", exitUsage, "http://host:port"},
		{"--base-url http://u:p@example.com branch list", exitUsage, "no user"},
	} {
		t.Run(test.args, func(t *testing.T) {
			t.Parallel()
			got := setup(t).run(t, strings.Fields(test.args)...)
			if got.code != test.code || !strings.Contains(got.stderr, test.want) {
				t.Errorf("exit code %d, want %d; stderr:\n%s", got.code, test.code, got.stderr)
			}
			if got.code != exitOK && got.stdout != "" {
				t.Errorf("stdout: %s", got.stdout)
			}
			if got.code == exitUsage && !strings.Contains(got.stderr, "--help\" for usage.") {
				t.Errorf("the help is not named:\n%s", got.stderr)
			}
		})
	}
}

func TestServerErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		answer http.HandlerFunc
	}{
		{"hint_and_details", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"error":"no more \u001b[31mbranches","code":"max_branches_reached","details":"50 of 50","hint":"delete one","request_id":"6a0b"}`))
		}},
		{"unauthorized", func(w http.ResponseWriter, _ *http.Request) {
			fail(w, http.StatusUnauthorized, "unauthorized", "credentials are missing")
		}},
		{"proxy", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>", http.StatusBadGateway) }},
		{"not_found", http.NotFound},
		{"redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://elsewhere.example/", http.StatusFound)
		}},
		{"internal", func(w http.ResponseWriter, _ *http.Request) {
			fail(w, http.StatusInternalServerError, "internal_error", "internal error")
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.server.replace = func(rw http.ResponseWriter, r *http.Request) bool {
				test.answer(rw, r)
				return true
			}
			got := w.run(t, "branch", "list")
			if got.code != exitFailed || got.stdout != "" {
				t.Errorf("exit code %d, stdout %s", got.code, got.stdout)
			}
			golden(t, "errors/"+test.name, got.stderr)
		})
	}
}

func TestNoServer(t *testing.T) {
	t.Parallel()
	w := setup(t)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	w.env["BOUGH_BASE_URL"] = gone.URL
	got := w.run(t, "branch", "list")
	want := "Error: no server answers at " + gone.URL + ": connection refused\n" +
		"Hint: start a server with \"bough serve\", or name another one with --base-url or BOUGH_BASE_URL\n"
	if diff := cmp.Diff(result{exitFailed, "", want}, got, cmp.AllowUnexported(result{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOnlyReadsAreRepeated(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.server.replace = func(rw http.ResponseWriter, _ *http.Request) bool {
		rw.Header().Set("Retry-After", "0")
		fail(rw, http.StatusServiceUnavailable, "unavailable", "starting")
		return true
	}
	for _, test := range []struct {
		args string
		want int
	}{
		{"branch list", maxRetries},
		{"branch create x --no-wait", 1},
	} {
		w.server.requested()
		if got := w.run(t, strings.Fields(test.args)...); got.code != exitFailed {
			t.Errorf("%s: exit code %d", test.args, got.code)
		}
		if n := len(w.server.requested()); n != test.want {
			t.Errorf("%s: %d requests, want %d", test.args, n, test.want)
		}
	}
}

func TestRequestsNameTheProgram(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.ok(t, "branch", "list")
	if got := w.server.headers[0].Get("User-Agent"); got != "bough/"+programVersion() {
		t.Errorf("User-Agent %q", got)
	}
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ args, want string }{
		{"branch get ", "demo\tdemo, ready\n"},
		{"branch create x --from ", "main\tmain, ready\n"},
		{"branch create x --clone-data ", "schema_only\nfull_clone\nseed_data\n"},
		{"branch list --status ", "creating\nready\nresetting\ndeleting\nerror\n"},
		{"branch list -o ", "table\njson\nyaml\n"},
		{"keys create --scopes read:tables,", "read:tables,write:tables\n"},
		{"keys revoke ", "0191d9a0-5f0e-7c5e-9a52-100000000071\tnightly report\n"},
		{"webhooks create x --events branch.ready,", "branch.ready,branch.deleted\n"},
		{"webhooks test ", "0191d9a0-5f0e-7c5e-9a52-100000000800\thttps://ci.example.com/hook\n"},
		{"help branch ", "list\tList branches"},
	} {
		w := setup(t)
		w.server.keys = testKeys()
		args := append([]string{cobra.ShellCompRequestCmd}, strings.Split(test.args, " ")...)
		if got := w.ok(t, args...); !strings.Contains(got, test.want) {
			t.Errorf("%q: %s", test.args, got)
		}
		// A server that refuses is no reason to say anything in the middle of a command line.
		w.env["BOUGH_SERVICE_KEY"] = "wrong"
		if got := w.run(t, args...); strings.Contains(got.stderr, "Error") {
			t.Errorf("%q: %s", test.args, got.stderr)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if got := setup(t).ok(t, "completion", shell); !strings.Contains(got, "bough") {
			t.Errorf("%s: %s", shell, got)
		}
	}
}
