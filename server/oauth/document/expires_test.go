package document

import (
	"net/http"
	"testing"
	"time"
)

func TestExpires(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) string { return now.Add(d).Format(http.TimeFormat) }
	for name, c := range map[string]struct {
		header http.Header
		want   time.Duration
	}{
		"nothing":             {nil, time.Hour},
		"max-age":             {http.Header{"Cache-Control": {"public, max-age=7200"}}, 2 * time.Hour},
		"quoted":              {http.Header{"Cache-Control": {`Max-Age="7200"`}}, 2 * time.Hour},
		"two fields":          {http.Header{"Cache-Control": {"public", "max-age=7200"}}, 2 * time.Hour},
		"short":               {http.Header{"Cache-Control": {"max-age=1"}}, 5 * time.Minute},
		"none":                {http.Header{"Cache-Control": {"max-age=0"}}, 5 * time.Minute},
		"long":                {http.Header{"Cache-Control": {"max-age=31536000"}}, 24 * time.Hour},
		"overflow":            {http.Header{"Cache-Control": {"max-age=99999999999999999999999"}}, 24 * time.Hour},
		"negative":            {http.Header{"Cache-Control": {"max-age=-1"}}, 5 * time.Minute},
		"not a number":        {http.Header{"Cache-Control": {"max-age=x"}}, 5 * time.Minute},
		"no-store":            {http.Header{"Cache-Control": {"no-store, max-age=7200"}}, 5 * time.Minute},
		"no-cache, later":     {http.Header{"Cache-Control": {"max-age=7200, no-cache"}}, 5 * time.Minute},
		"s-maxage":            {http.Header{"Cache-Control": {"s-maxage=7200, max-age=600"}}, 2 * time.Hour},
		"age":                 {http.Header{"Cache-Control": {"max-age=7200"}, "Age": {"3600"}}, time.Hour},
		"old":                 {http.Header{"Cache-Control": {"max-age=7200"}, "Age": {"99999999999999999999"}}, 5 * time.Minute},
		"expires":             {http.Header{"Expires": {at(2 * time.Hour)}}, 2 * time.Hour},
		"expires, other date": {http.Header{"Expires": {at(2 * time.Hour)}, "Date": {at(time.Hour)}}, time.Hour},
		"expired":             {http.Header{"Expires": {at(-time.Hour)}}, 5 * time.Minute},
		"expired long ago":    {http.Header{"Expires": {"Mon, 01 Jan 0001 00:00:00 GMT"}, "Age": {"86400"}}, 5 * time.Minute},
		"expires in ages":     {http.Header{"Expires": {"Fri, 31 Dec 9999 23:59:59 GMT"}}, 24 * time.Hour},
		"expires is zero":     {http.Header{"Expires": {"0"}}, 5 * time.Minute},
		"max-age first":       {http.Header{"Expires": {at(-time.Hour)}, "Cache-Control": {"max-age=7200"}}, 2 * time.Hour},
	} {
		if got := expires(c.header, now).Sub(now); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
