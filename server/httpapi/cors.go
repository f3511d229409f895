package httpapi

import (
	"net/http"

	"github.com/rs/cors"
)

// allowOrigins lets pages of these origins read answers (WHATWG Fetch, section 3.3). Credentials are headers that a page
// sets itself, never cookies, so that other pages cannot borrow them.
func allowOrigins(origins []string, next http.Handler) http.Handler {
	if len(origins) == 0 {
		return next
	}
	return cors.New(cors.Options{
		AllowedOrigins: origins,
		AllowedMethods: []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "QUERY"},
		AllowedHeaders: []string{"*"},
		ExposedHeaders: []string{
			"Content-Range", "Content-Profile", "ETag", "Link", "Location", "Preference-Applied", "Retry-After", "X-Request-Id",
		},
		MaxAge: 600,
	}).Handler(next)
}

// allowAny lets pages of any origin read answers: clients that run in a browser ask for what is public, or for tokens in
// exchange for what only they know.
func allowAny(next http.Handler) http.Handler {
	return cors.New(cors.Options{
		AllowedOrigins: []string{"*"},
		AllowedMethods: []string{"GET", "HEAD", "POST"},
		AllowedHeaders: []string{"*"},
		ExposedHeaders: []string{"WWW-Authenticate", "Retry-After", "X-Request-Id"},
		MaxAge:         600,
	}).Handler(next)
}
