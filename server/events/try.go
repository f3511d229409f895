package events

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/boughdb/bough/gen/db"
)

const (
	// Of an answer's body so much is kept.
	keptBody = 1 << 10
	// An endpoint that asks to be left alone for longer is asked again after this.
	maxRetryAfter = 24 * time.Hour
)

// attempt is what came of a try, as it is kept in the delivery.
type attempt struct {
	At         time.Time `json:"at"`
	DurationMs int64     `json:"duration_ms"`
	Status     *int      `json:"response_status"` // nil when there was no answer
	Body       *string   `json:"response_body"`
	Error      *string   `json:"error"`
	retryAfter time.Duration
}

// failed is the attempt of a delivery that did not get as far as its endpoint.
func failed(err error) attempt {
	text := reason(err)
	return attempt{At: time.Now().UTC().Truncate(time.Microsecond), Error: &text}
}

func (a attempt) succeeded() bool { return a.Status != nil && *a.Status/100 == 2 }

// try sends an event once. What goes wrong is part of the attempt.
func (s *Service) try(ctx context.Context, target string, event db.Event, secrets [][]byte) attempt {
	began := time.Now().UTC().Truncate(time.Microsecond)
	a := attempt{At: began}
	if err := s.send(ctx, target, event, secrets, &a); err != nil {
		text := reason(err)
		a.Error = &text
	}
	a.DurationMs = time.Since(began).Milliseconds()
	return a
}

func (s *Service) send(ctx context.Context, target string, event db.Event, secrets [][]byte, a *attempt) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(event.Payload))
	if err != nil {
		return err
	}
	id, timestamp := event.ID.String(), strconv.FormatInt(a.At.Unix(), 10)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "Bough-Webhooks")
	req.Header.Set("Webhook-Id", id)
	req.Header.Set("Webhook-Timestamp", timestamp)
	req.Header.Set("Webhook-Signature", signatures(secrets, id, timestamp, event.Payload))
	res, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	a.Status = &res.StatusCode
	if res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusServiceUnavailable {
		a.retryAfter = retryAfter(res.Header.Get("Retry-After"), time.Now())
	}
	// The status is the answer; a body that breaks off changes nothing.
	data, _ := io.ReadAll(io.LimitReader(res.Body, keptBody))
	if len(data) > 0 {
		// PostgreSQL's jsonb cannot hold the character zero.
		body := strings.ReplaceAll(strings.ToValidUTF8(string(data), "\uFFFD"), "\x00", "\uFFFD")
		a.Body = &body
	}
	if res.StatusCode/100 == 3 {
		return errors.New("redirects are not followed; give the webhook the URL it should have")
	}
	return nil
}

// reason is what the delivery's record says of an error. The URL is left out: it is the webhook's, and may hold a
// secret.
func reason(err error) string {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		if wrapped.Timeout() {
			return fmt.Sprintf("no answer within %s", tryTimeout)
		}
		err = wrapped.Err
	}
	text := strings.ToValidUTF8(strings.ReplaceAll(err.Error(), "\x00", "\uFFFD"), "\uFFFD")
	if runes := []rune(text); len(runes) > keptBody {
		text = string(runes[:keptBody])
	}
	return text
}

// retryAfter reads the header of that name (RFC 9110, section 10.2.3): seconds or a date. What makes no sense is 0.
func retryAfter(header string, now time.Time) time.Duration {
	if header == "" {
		return 0
	}
	var wait time.Duration
	if seconds, err := strconv.ParseUint(header, 10, 31); err == nil {
		wait = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(header); err == nil {
		wait = at.Sub(now)
	}
	return min(max(wait, 0), maxRetryAfter)
}
