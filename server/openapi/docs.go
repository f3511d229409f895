package openapi

import (
	"bytes"
	"compress/gzip"
	"embed"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"
)

//go:embed docs
var docsFiles embed.FS

// docsPolicy lets the page load and reach nothing but this server, and run no script but its files.
const docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Docs serves a page that shows /openapi.json, at /docs, and what it needs under /docs/. Everything comes from the
// program itself. The page's addresses are relative, so that it works behind a proxy that adds a prefix. ?branch= shows
// the document of a branch.
func Docs() http.Handler {
	d := docs{files: map[string]docsFile{}}
	// Files of the program itself can always be read.
	entries, _ := docsFiles.ReadDir("docs")
	var all []byte
	for _, entry := range entries {
		data, _ := docsFiles.ReadFile("docs/" + entry.Name())
		all = append(all, data...)
		name, zipped := strings.CutSuffix(entry.Name(), ".gz")
		file := docsFile{data: data, zipped: zipped, contentType: "text/plain; charset=utf-8"}
		switch path.Ext(name) {
		case ".js":
			file.contentType = "text/javascript; charset=utf-8"
		case ".css":
			file.contentType = "text/css; charset=utf-8"
		}
		d.files[name] = file
	}
	// The files' addresses change with them, so that they may be kept for ever.
	d.version = strings.Trim(ETag(all), `"`)[:12]
	d.page = docsFile{
		data:        bytes.ReplaceAll(d.files["index.html"].data, []byte("VERSION"), []byte(d.version)),
		contentType: "text/html; charset=utf-8",
	}
	delete(d.files, "index.html")
	delete(d.files, "README.md")
	return d
}

// docs is the handler of the page.
type docs struct {
	version string
	page    docsFile
	files   map[string]docsFile
}

type docsFile struct {
	data        []byte
	zipped      bool
	contentType string
}

func (d docs) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD are served here", http.StatusMethodNotAllowed)
		return
	}
	header := w.Header()
	header.Set("Content-Security-Policy", docsPolicy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	switch name := strings.TrimPrefix(r.URL.Path, "/docs"); name {
	case "":
		header.Set("Cache-Control", "no-cache")
		d.page.serve(w, r)
	case "/":
		// The page's relative addresses are for /docs.
		target := "../docs"
		if r.URL.RawQuery != "" {
			target += "?" + r.URL.RawQuery
		}
		header.Set("Location", target)
		w.WriteHeader(http.StatusPermanentRedirect)
	default:
		file, ok := d.files[strings.TrimPrefix(name, "/"+d.version+"/")]
		if !ok {
			http.NotFound(w, r)
			return
		}
		header.Set("Cache-Control", "public, max-age=31536000, immutable")
		file.serve(w, r)
	}
}

// serve writes the file, compressed as it is where the client can read that.
func (f docsFile) serve(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Type", f.contentType)
	data := f.data
	tag := ETag(data)
	if f.zipped {
		header.Add("Vary", "Accept-Encoding")
		if acceptsGzip(r) {
			header.Set("Content-Encoding", "gzip")
		} else {
			plain, err := unzip(data)
			if err != nil {
				http.Error(w, "the file cannot be read", http.StatusInternalServerError)
				return
			}
			data, tag = plain, ETag(plain)
		}
	}
	header.Set("ETag", tag)
	if match := r.Header.Get("If-None-Match"); match == tag || match == "W/"+tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	header.Set("Content-Length", strconv.Itoa(len(data)))
	if r.Method == http.MethodGet {
		_, _ = w.Write(data) // a client that is gone is no matter
	}
}

func unzip(data []byte) ([]byte, error) {
	reader, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(reader)
}

// acceptsGzip reads Accept-Encoding (RFC 9110, section 12.5.3).
func acceptsGzip(r *http.Request) bool {
	for _, part := range strings.Split(strings.Join(r.Header.Values("Accept-Encoding"), ","), ",") {
		coding, params, _ := strings.Cut(part, ";")
		if strings.EqualFold(strings.TrimSpace(coding), "gzip") {
			weight, hasWeight := strings.CutPrefix(strings.ReplaceAll(params, " ", ""), "q=")
			return !hasWeight || strings.Trim(weight, "0.") != ""
		}
	}
	return false
}
