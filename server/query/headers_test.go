package query_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/query"
)

func TestPrefer(t *testing.T) {
	t.Parallel()
	five, zero, wait := int64(5), int64(0), 10*time.Second
	for _, tc := range []struct {
		name string
		in   []string
		want query.Preferences
	}{
		{"none", nil, query.Preferences{}},
		{"empty", []string{"", " , ,"}, query.Preferences{}},
		{"joined", []string{"return=representation, count=exact,resolution=merge-duplicates"}, query.Preferences{
			Return: query.ReturnRepresentation, Count: query.CountExact, Resolution: query.MergeDuplicates,
		}},
		{"repeated headers", []string{"return=minimal", "count=planned", "missing=default , tx=rollback"}, query.Preferences{
			Return: query.ReturnMinimal, Count: query.CountPlanned, Missing: query.MissingDefault, Tx: query.TxRollback,
		}},
		{"the other values", []string{"return=headers-only,count=estimated,resolution=ignore-duplicates,missing=null,tx=commit,handling=lenient,nested=replace"}, query.Preferences{
			Return: query.ReturnHeadersOnly, Count: query.CountEstimated, Resolution: query.IgnoreDuplicates, Missing: query.MissingNull,
			Tx: query.TxCommit, Handling: query.HandlingLenient, Nested: query.NestedReplace,
		}},
		{"numbers", []string{"max-affected=5, min-affected=0, wait=10, nested=merge, handling=strict"}, query.Preferences{
			MaxAffected: &five, MinAffected: &zero, Wait: &wait, Nested: query.NestedMerge, Handling: query.HandlingStrict,
		}},
		{"syntax of RFC 7240", []string{`RETURN = "minimal" ; foo="a,b;c" ; bar, Timezone="America/Los_Angeles";x`}, query.Preferences{
			Return: query.ReturnMinimal, Timezone: "America/Los_Angeles",
		}},
		{"escapes in quotes", []string{`count="ex\act"`}, query.Preferences{Count: query.CountExact}},
		{"the first counts", []string{"tx=commit, tx=rollback", "tx=rollback"}, query.Preferences{Tx: query.TxCommit}},
		{"the first counts even if it is invalid", []string{"tx=foo, tx=rollback"}, query.Preferences{Invalid: []string{"tx=foo"}}},
		{"unknown", []string{`return=Minimal, respond-async, foo="a, b", max-affected=-1, wait=1e3, wait=5, timezone=a b, count, return`}, query.Preferences{
			Invalid: []string{"return=Minimal", "respond-async", `foo="a, b"`, "max-affected=-1", "wait=1e3", "timezone=a b", "count"},
		}},
		{"malformed", []string{`count="exact, tx=commit`, `missing=de"fault`, `"tx"=commit, =, tx="commit"x`}, query.Preferences{
			Invalid: []string{`count="exact, tx=commit`, `missing=de"fault`, `"tx"=commit`, "=", `tx="commit"x`},
		}},
	} {
		got, err := query.ParsePrefer(tc.in)
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

func TestStrictHandlingRefusesInvalidPreferences(t *testing.T) {
	t.Parallel()
	_, err := query.ParsePrefer([]string{"anything, return=foo", "handling=strict, count=exact"})
	want := &fault.Error{Kind: fault.Invalid, Code: "PGRST122", Message: "Invalid preferences given with handling=strict",
		Details: "Invalid preferences: anything, return=foo"}
	var f *fault.Error
	if !errors.As(err, &f) || f.Details != want.Details || f.Message != want.Message || !errors.Is(err, want) {
		t.Errorf("error is %#v", err)
	}
	many, err := query.ParsePrefer([]string{strings.Repeat("x=1,", 1000) + "handling=strict"})
	if len(many.Invalid) != 20 || !errors.Is(err, want) {
		t.Errorf("%d invalid preferences, error %v", len(many.Invalid), err)
	}
	p, err := query.ParsePrefer([]string{"handling=strict, timezone=Mars/Olympus"})
	if err != nil {
		t.Fatal(err)
	}
	p.Invalid = append(p.Invalid, "timezone="+p.Timezone)
	if err := p.Err(); !errors.Is(err, want) {
		t.Errorf("error of a preference that turns out invalid is %v", err)
	}
}

func TestPreferenceApplied(t *testing.T) {
	t.Parallel()
	p, err := query.ParsePrefer([]string{
		"wait=3, nested=merge, min-affected=1, max-affected=2, timezone=UTC, handling=strict, tx=rollback, count=exact, return=minimal, missing=default, resolution=ignore-duplicates",
	})
	if err != nil {
		t.Fatal(err)
	}
	all := "resolution=ignore-duplicates, missing=default, return=minimal, count=exact, tx=rollback, handling=strict, " +
		"timezone=UTC, max-affected=2, min-affected=1, nested=merge, wait=3"
	for _, tc := range []struct {
		names []string
		want  string
	}{
		{nil, ""},
		{[]string{"foo"}, ""},
		{[]string{"tx", "return"}, "return=minimal, tx=rollback"},
		{[]string{"wait", "nested", "min-affected", "max-affected", "timezone", "handling", "tx", "count", "return", "missing", "resolution"}, all},
	} {
		if diff := cmp.Diff(tc.want, p.Applied(tc.names...)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tc.names, diff)
		}
	}
	if got := new(query.Preferences).Applied("return", "count", "wait", "max-affected", "tx"); got != "" {
		t.Errorf("without preferences: %q", got)
	}
}

func TestRange(t *testing.T) {
	t.Parallel()
	n := func(n int64) *int64 { return &n }
	for _, tc := range []struct {
		in     string
		offset int64
		limit  *int64
		ok     bool
		err    string
	}{
		{"", 0, nil, false, ""},
		{"0-9", 0, n(10), true, ""},
		{"items=5-5", 5, n(1), true, ""},
		{" Items = 10 - 19 ", 10, n(10), true, ""},
		{"0-", 0, nil, true, ""},
		{"7-", 7, nil, true, ""},
		{"0-9223372036854775807", 0, nil, true, ""},
		{"1-9223372036854775807", 1, n(9223372036854775807), true, ""},
		{"bytes=0-9", 0, nil, false, ""},
		{"bytes=nonsense", 0, nil, false, ""},
		{"9-0", 0, nil, false, "Requested range not satisfiable"},
		{"-5", 0, nil, false, `the Range header must have the form 0-9 or 0-, not "-5"`},
		{"5", 0, nil, false, `the Range header must have the form 0-9 or 0-, not "5"`},
		{"a-b", 0, nil, false, `the Range header must have the form 0-9 or 0-, not "a-b"`},
		{"0-9,20-29", 0, nil, false, `the Range header must have the form 0-9 or 0-, not "0-9,20-29"`},
		{"items=", 0, nil, false, `the Range header must have the form 0-9 or 0-, not "items="`},
		{"0-9223372036854775808", 0, nil, false, `the Range header must have the form 0-9 or 0-, not "0-9223372036854775808"`},
	} {
		offset, limit, ok, err := query.ParseRange(tc.in)
		message := ""
		if err != nil {
			message = err.Error()
			if !errors.Is(err, fault.New(fault.RangeNotSatisfiable, "PGRST103", "")) {
				t.Errorf("%s: %#v", tc.in, err)
			}
		}
		if diff := cmp.Diff([]any{tc.offset, tc.limit, tc.ok, tc.err}, []any{offset, limit, ok, message}); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tc.in, diff)
		}
	}
}
