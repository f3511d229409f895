package httpapi

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/fault"
)

const requestIDKey = "request_id"

var requestIDForm = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)

// requestID gives the request its id: the client's, where it has the form of one, else a new one.
func (a *API) requestID(c *gin.Context) {
	id := c.GetHeader("X-Request-Id")
	if !requestIDForm.MatchString(id) {
		b := make([]byte, 16)
		_, _ = rand.Read(b) // never fails (crypto/rand)
		id = hex.EncodeToString(b)
	}
	c.Set(requestIDKey, id)
	c.Header("X-Request-Id", id)
}

// observe logs and counts each request when it is done.
func (a *API) observe() gin.HandlerFunc {
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "bough_http_request_duration_seconds", Help: "Time to answer, by method, route and status.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
	}, []string{"method", "route", "status"})
	if a.Metrics != nil {
		a.Metrics.MustRegister(seconds)
	}
	return func(c *gin.Context) {
		began := time.Now()
		c.Next()
		took := time.Since(began)
		route, method := c.FullPath(), c.Request.Method
		if route == "" {
			route, method = "none", "other" // what strangers ask for must not make metrics without end
		}
		status := c.Writer.Status()
		seconds.WithLabelValues(method, route, strconv.Itoa(status)).Observe(took.Seconds())
		level := slog.LevelInfo
		if route == "/healthz" || route == "/readyz" {
			level = slog.LevelDebug
		}
		attrs := []slog.Attr{
			slog.String("method", c.Request.Method), slog.String("route", route), slog.Int("status", status),
			slog.Duration("took", took.Round(time.Microsecond)), slog.String("request_id", c.GetString(requestIDKey)),
		}
		if p := auth.FromContext(c.Request.Context()); p != nil {
			attrs = append(attrs, slog.String("principal", p.Actor()))
		}
		a.Log.LogAttrs(c.Request.Context(), level, "request", attrs...)
	}
}

// recover answers a request whose handler panicked, and logs where.
func (a *API) recover(c *gin.Context) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		if v == http.ErrAbortHandler { //nolint:errorlint // a sentinel that is panicked with, not an error chain
			panic(v)
		}
		a.Log.Error("a handler panicked", "panic", v, "request_id", c.GetString(requestIDKey), "stack", string(debug.Stack()))
		c.Abort()
		if !c.Writer.Written() {
			a.answer(c, http.StatusInternalServerError, &fault.Error{Code: "internal_error", Message: "internal error"})
		}
	}()
	c.Next()
}

// limitTime bounds what a request may cost; operations that wait stay well below.
func limitTime(c *gin.Context) {
	ctx, cancel := context.WithTimeout(c.Request.Context(), requestTimeout)
	defer cancel()
	c.Request = c.Request.WithContext(ctx)
	c.Next()
}

// limitBody bounds a body's length.
func limitBody(c *gin.Context) {
	c.Request.Body = http.MaxBytesReader(c.Writer, c.Request.Body, maxBody)
}

// decodePath undoes the percent-encoding of path parameters, a slash's included.
func (a *API) decodePath(c *gin.Context) {
	for i, p := range c.Params {
		value, err := url.PathUnescape(p.Value)
		if err != nil {
			a.writeError(c, fault.Validation("the path parameter %s is not percent-encoded as it should be", p.Key))
			return
		}
		if isNoText(value) {
			a.writeError(c, fault.Validation("the path parameter %s is not UTF-8 text, or has a zero byte in it", p.Key))
			return
		}
		c.Params[i].Value = value
	}
}

// authenticate finds out who asks, from the headers alone, before anything of the body is read. Which credentials an
// operation takes stands in the contract.
func (a *API) authenticate(operations map[string]operation) gin.HandlerFunc {
	return func(c *gin.Context) {
		op := operations[c.Request.Method+" "+c.FullPath()]
		if op.Operation == nil {
			a.writeError(c, fmt.Errorf("%s %s is served but not in the contract", c.Request.Method, c.FullPath()))
			return
		}
		if op.Security == nil || len(*op.Security) == 0 {
			return
		}
		p, err := a.principalFor(c.Request, *op.Security)
		if err != nil {
			a.writeError(c, err)
			return
		}
		c.Request = c.Request.WithContext(auth.NewContext(c.Request.Context(), p))
	}
}
