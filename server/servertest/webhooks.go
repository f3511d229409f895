package servertest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"
)

// Receiver is an endpoint that webhooks are sent to. It keeps what arrives.
type Receiver struct {
	URL    string
	answer func(w http.ResponseWriter, m Message)

	mu  sync.Mutex
	got []Message
}

// Message is an event that arrived.
type Message struct {
	Header    http.Header
	Body      []byte
	Type      string         `json:"type"`
	Timestamp time.Time      `json:"timestamp"`
	Data      map[string]any `json:"data"`
	// Count is how many arrived, this one included.
	Count int
}

// NewReceiver starts an endpoint. answer writes its answers; nil answers 204.
func NewReceiver(t testing.TB, answer func(w http.ResponseWriter, m Message)) *Receiver {
	t.Helper()
	r := &Receiver{answer: answer}
	web := httptest.NewServer(r)
	t.Cleanup(web.Close)
	r.URL = web.URL + "/hook"
	return r
}

func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	m := Message{Header: req.Header.Clone(), Body: body}
	if err != nil || req.Method != http.MethodPost || json.Unmarshal(body, &m) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	m.Count = len(r.got) + 1
	r.got = append(r.got, m)
	r.mu.Unlock()
	if r.answer == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	r.answer(w, m)
}

// Messages are those that arrived until now, in the order in which they did.
func (r *Receiver) Messages() []Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

// Types are the types of the events that arrived, in the order in which they happened.
func (r *Receiver) Types() []string {
	got := r.Messages()
	slices.SortStableFunc(got, func(a, b Message) int { return a.Timestamp.Compare(b.Timestamp) })
	types := make([]string, len(got))
	for i, m := range got {
		types[i] = m.Type
	}
	return types
}
