package query_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/query"
)

func TestAccept(t *testing.T) {
	t.Parallel()
	any, json, csv := query.Media{Kind: query.MediaAny}, query.Media{Kind: query.MediaJSON}, query.Media{Kind: query.MediaCSV}
	object, array := query.Media{Kind: query.MediaObject}, query.Media{Kind: query.MediaArray}
	ndjson, text, binary := query.Media{Kind: query.MediaNDJSON}, query.Media{Kind: query.MediaText}, query.Media{Kind: query.MediaBinary}
	plan := func(p query.Plan) query.Media { return query.Media{Kind: query.MediaPlan, Plan: &p} }
	for _, tc := range []struct {
		in   string
		want []query.Media
	}{
		{"", []query.Media{any}},
		{"  ", []query.Media{any}},
		{"*/*", []query.Media{any}},
		{"application/json", []query.Media{json}},
		{"Application/JSON; charset=utf-8", []query.Media{json}},
		{"application/vnd.pgrst.object+json", []query.Media{object}},
		{"application/vnd.pgrst.object", []query.Media{object}},
		{"application/vnd.pgrst.object+json;nulls=stripped", []query.Media{{Kind: query.MediaObject, StripNulls: true}}},
		{"application/vnd.pgrst.array+json", []query.Media{array}},
		{"application/vnd.pgrst.array ; nulls = stripped", []query.Media{{Kind: query.MediaArray, StripNulls: true}}},
		{"application/vnd.pgrst.array;nulls=kept, text/csv", []query.Media{csv}},
		{"text/csv", []query.Media{csv}},
		{"application/x-ndjson", []query.Media{ndjson}},
		{"application/ndjson", []query.Media{ndjson}},
		{"application/jsonl", []query.Media{ndjson}},
		{"text/plain", []query.Media{text}},
		{"application/octet-stream", []query.Media{binary}},
		{"application/geo+json, */*;q=0.1", []query.Media{any}},
		{"text/html,application/xhtml+xml,application/xml;q=0.9,image/webp,*/*;q=0.8", []query.Media{any}},
		{"text/csv;q=0.5, application/json, text/plain;q=0.25", []query.Media{json, csv, text}},
		{"text/csv;q=0.5, text/plain;q=0.501", []query.Media{text, csv}},
		{"*/*, text/csv", []query.Media{csv, any}},
		{"*/*, text/*, text/plain", []query.Media{text, csv, text, any}},
		{"application/*", []query.Media{json, ndjson, binary}},
		{"text/*", []query.Media{csv, text}},
		{"text/csv;q=0, text/*", []query.Media{text}},
		{"application/json;q=0, */*", []query.Media{csv, ndjson, text, binary}},
		{"application/json;q=0.000, application/*;q=0.5", []query.Media{ndjson, binary}},
		{"text/csv;q=0, application/json", []query.Media{json}},
		{"application/json;q=high, text/csv;q=0.9999", []query.Media{json, csv}},
		{`text/csv;x="a,b;c", application/json;q="0.5"`, []query.Media{csv, json}},
		{`text/csv;x="a, application/json`, nil},
		{"application/vnd.pgrst.plan", []query.Media{plan(query.Plan{For: query.MediaJSON})}},
		{"application/vnd.pgrst.plan+text", []query.Media{plan(query.Plan{For: query.MediaJSON})}},
		{"application/vnd.pgrst.plan+json", []query.Media{plan(query.Plan{For: query.MediaJSON, JSON: true})}},
		{`application/vnd.pgrst.plan+json; for="application/vnd.pgrst.object"; options=analyze|verbose|settings|buffers|wal;`, []query.Media{plan(query.Plan{
			JSON: true, For: query.MediaObject, Analyze: true, Verbose: true, Settings: true, Buffers: true, WAL: true,
		})}},
		{`application/vnd.pgrst.plan; for="text/csv; charset=utf-8"; options=Analyze`, []query.Media{plan(query.Plan{For: query.MediaCSV, Analyze: true})}},
		{`application/vnd.pgrst.plan; for="image/png"`, nil},
		{`application/vnd.pgrst.plan; for="application/vnd.pgrst.plan"`, nil},
		{"application/vnd.pgrst.plan; options=costs", nil},
		{"image/png", nil},
		{"application/geo+json", nil},
		{"application/json;q=0", nil},
		{"*/*;q=0", nil},
		{",;,", nil},
	} {
		got, err := query.ParseAccept(tc.in)
		if tc.want == nil {
			var f *fault.Error
			if !errors.As(err, &f) || f.Kind != fault.NotAcceptable || f.Code != "PGRST107" || f.Message != "None of these media types are available: "+tc.in {
				t.Errorf("%q: %v, error %v", tc.in, got, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", tc.in, err)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tc.in, diff)
		}
	}
}

// A content type must be what the caller asked for, so that it can be asked for again.
func TestContentTypesAreAcceptedAgain(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		"application/json; charset=utf-8", "text/csv; charset=utf-8", "application/x-ndjson", "text/plain; charset=utf-8", "application/octet-stream",
		"application/vnd.pgrst.object+json; charset=utf-8", "application/vnd.pgrst.array+json;nulls=stripped; charset=utf-8",
		`application/vnd.pgrst.plan+text; for="application/json"; charset=utf-8`,
		`application/vnd.pgrst.plan+json; for="application/vnd.pgrst.object+json"; options=analyze|wal; charset=utf-8`,
	} {
		media, err := query.ParseAccept(in)
		if err != nil {
			t.Errorf("%s: %v", in, err)
		} else if got := media[0].ContentType(); got != in {
			t.Errorf("%s became %s", in, got)
		}
	}
}
