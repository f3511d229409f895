package query

import (
	"cmp"
	"slices"
	"strings"

	"github.com/boughdb/bough/server/fault"
)

// MediaKind is a form of an answer.
type MediaKind int

// The forms. MediaAny leaves the choice to the server.
const (
	MediaAny    MediaKind = iota
	MediaJSON             // application/json
	MediaObject           // application/vnd.pgrst.object+json: the one row as an object
	MediaArray            // application/vnd.pgrst.array+json: always an array
	MediaCSV              // text/csv
	MediaNDJSON           // application/x-ndjson
	MediaText             // text/plain, of a function's scalar result
	MediaBinary           // application/octet-stream, of a function's scalar result
	MediaPlan             // application/vnd.pgrst.plan: the plan of the query
)

// Media is a form of an answer that the caller accepts.
type Media struct {
	Kind MediaKind
	// StripNulls leaves fields out that are null; of MediaObject and MediaArray.
	StripNulls bool
	// Plan is set for MediaPlan only.
	Plan *Plan
}

// Plan says how the plan of a query is shown.
type Plan struct {
	JSON bool // else as text
	// For is the form of the answer whose query is explained.
	For                                      MediaKind
	Analyze, Verbose, Settings, Buffers, WAL bool
}

// ParseAccept reads an Accept header and returns the forms that the caller accepts, the best first: by quality, then
// the exact ones before those with a star, then in the order of the header. A missing header accepts anything. Forms
// that are not known are skipped; where none is left the error is NotAcceptable.
func ParseAccept(header string) ([]Media, error) {
	if strings.TrimSpace(header) == "" {
		return []Media{{Kind: MediaAny}}, nil
	}
	var (
		ranges   []mediaRange
		excluded [MediaPlan + 1]bool
	)
	for item := range splitOutsideQuotes(header, ',') {
		r, ok := parseMediaRange(item)
		switch {
		case !ok:
		case r.quality == 0:
			if r.stars == 0 {
				excluded[r.media[0].Kind] = true
			}
		default:
			ranges = append(ranges, r)
		}
	}
	slices.SortStableFunc(ranges, func(a, b mediaRange) int {
		return cmp.Or(cmp.Compare(b.quality, a.quality), cmp.Compare(a.stars, b.stars))
	})
	var accepted []Media
	for _, r := range ranges {
		media := r.media
		if r.stars == 2 && slices.Contains(excluded[:], true) {
			media = everything
		}
		for _, m := range media {
			if r.stars == 0 || !excluded[m.Kind] {
				accepted = append(accepted, m)
			}
		}
	}
	if len(accepted) == 0 {
		return nil, &fault.Error{
			Kind: fault.NotAcceptable, Code: codeMedia,
			Message: "None of these media types are available: " + clip(strings.ToValidUTF8(header, "?")),
			Hint:    "ask for application/json, text/csv, application/x-ndjson or application/vnd.pgrst.object+json",
		}
	}
	return accepted, nil
}

// everything is what */* stands for where something is excluded.
var everything = []Media{{Kind: MediaJSON}, {Kind: MediaCSV}, {Kind: MediaNDJSON}, {Kind: MediaText}, {Kind: MediaBinary}}

// mediaRange is an entry of an Accept header.
type mediaRange struct {
	media   []Media
	quality int // in thousandths
	stars   int
}

func parseMediaRange(item string) (mediaRange, bool) {
	r := mediaRange{quality: 1000}
	switch name := strings.ToLower(firstOutsideQuotes(item, ';')); name {
	case "*/*":
		r.media, r.stars = []Media{{Kind: MediaAny}}, 2
	case "application/*":
		r.media, r.stars = []Media{{Kind: MediaJSON}, {Kind: MediaNDJSON}, {Kind: MediaBinary}}, 1
	case "text/*":
		r.media, r.stars = []Media{{Kind: MediaCSV}, {Kind: MediaText}}, 1
	default:
		m, ok := mediaType(name)
		if !ok {
			return r, false
		}
		r.media = []Media{m}
	}
	first := true
	for param := range splitOutsideQuotes(item, ';') {
		if first {
			first = false
			continue
		}
		name, value, _ := strings.Cut(param, "=")
		value, ok := unquoteHeader(strings.TrimSpace(value))
		if !ok {
			return r, false
		}
		name = strings.ToLower(strings.TrimSpace(name))
		if name == "q" {
			r.quality = quality(value)
		} else if r.stars == 0 && !r.media[0].parameter(name, value) {
			return r, false
		}
	}
	return r, true
}

// mediaType returns the form of a media type's name in lower case.
func mediaType(name string) (Media, bool) {
	switch name {
	case "application/json":
		return Media{Kind: MediaJSON}, true
	case "application/vnd.pgrst.object", "application/vnd.pgrst.object+json":
		return Media{Kind: MediaObject}, true
	case "application/vnd.pgrst.array", "application/vnd.pgrst.array+json":
		return Media{Kind: MediaArray}, true
	case "text/csv":
		return Media{Kind: MediaCSV}, true
	case "application/x-ndjson", "application/ndjson", "application/jsonl":
		return Media{Kind: MediaNDJSON}, true
	case "text/plain":
		return Media{Kind: MediaText}, true
	case "application/octet-stream":
		return Media{Kind: MediaBinary}, true
	case "application/vnd.pgrst.plan", "application/vnd.pgrst.plan+text":
		return Media{Kind: MediaPlan, Plan: &Plan{For: MediaJSON}}, true
	case "application/vnd.pgrst.plan+json":
		return Media{Kind: MediaPlan, Plan: &Plan{JSON: true, For: MediaJSON}}, true
	}
	return Media{}, false
}

// parameter takes a parameter of a media type; false if it asks for something that is not known. Parameters that mean
// nothing here, such as charset, are skipped.
func (m *Media) parameter(name, value string) bool {
	switch {
	case name == "nulls" && (m.Kind == MediaObject || m.Kind == MediaArray):
		m.StripNulls = strings.EqualFold(value, "stripped")
		return m.StripNulls
	case name == "for" && m.Kind == MediaPlan:
		explained, ok := mediaType(strings.ToLower(firstOutsideQuotes(value, ';')))
		m.Plan.For = explained.Kind
		return ok && explained.Kind != MediaPlan
	case name == "options" && m.Kind == MediaPlan:
		return m.Plan.options(value)
	}
	return true
}

func (p *Plan) options(value string) bool {
	for option := range strings.SplitSeq(value, "|") {
		switch strings.ToLower(strings.TrimSpace(option)) {
		case "analyze":
			p.Analyze = true
		case "verbose":
			p.Verbose = true
		case "settings":
			p.Settings = true
		case "buffers":
			p.Buffers = true
		case "wal":
			p.WAL = true
		case "":
		default:
			return false
		}
	}
	return true
}

// quality reads a quality of RFC 9110, 0 to 1 with up to three digits. What is malformed counts as 1, as if it were not
// there.
func quality(s string) int {
	whole, fraction, _ := strings.Cut(s, ".")
	if whole != "0" || len(fraction) > 3 {
		return 1000
	}
	n := 0
	for i := range 3 {
		digit := byte('0')
		if i < len(fraction) {
			digit = fraction[i]
		}
		if digit < '0' || digit > '9' {
			return 1000
		}
		n = n*10 + int(digit-'0')
	}
	return n
}

// ContentType returns the value of the Content-Type header of an answer in this form.
func (m Media) ContentType() string {
	nulls := ""
	if m.StripNulls {
		nulls = ";nulls=stripped"
	}
	switch m.Kind {
	case MediaObject:
		return "application/vnd.pgrst.object+json" + nulls + "; charset=utf-8"
	case MediaArray:
		return "application/vnd.pgrst.array+json" + nulls + "; charset=utf-8"
	case MediaCSV:
		return "text/csv; charset=utf-8"
	case MediaNDJSON:
		return "application/x-ndjson"
	case MediaText:
		return "text/plain; charset=utf-8"
	case MediaBinary:
		return "application/octet-stream"
	case MediaPlan:
		return m.Plan.contentType()
	case MediaAny, MediaJSON:
	}
	return "application/json; charset=utf-8"
}

func (p *Plan) contentType() string {
	text := "application/vnd.pgrst.plan+text"
	if p.JSON {
		text = "application/vnd.pgrst.plan+json"
	}
	explained, _, _ := strings.Cut(Media{Kind: p.For}.ContentType(), ";")
	text += `; for="` + explained + `"`
	var options []string
	for _, o := range []struct {
		name string
		on   bool
	}{{"analyze", p.Analyze}, {"verbose", p.Verbose}, {"settings", p.Settings}, {"buffers", p.Buffers}, {"wal", p.WAL}} {
		if o.on {
			options = append(options, o.name)
		}
	}
	if options != nil {
		text += "; options=" + strings.Join(options, "|")
	}
	return text + "; charset=utf-8"
}
