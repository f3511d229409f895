package datatools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/boughdb/bough/server/tables"
)

// answer takes an answer of the tables, up to a number of bytes. Then it refuses more, which ends the statement where
// rows are still coming.
type answer struct {
	head *tables.Head
	body bytes.Buffer
	cut  bool // there was more
}

var errEnough = errors.New("the result has as many bytes as a tool returns")

// Begin implements tables.Answer.
func (a *answer) Begin(h *tables.Head) (io.Writer, error) {
	a.head = h
	return a, nil
}

// Write implements io.Writer.
func (a *answer) Write(p []byte) (int, error) {
	if room := maxBytes - a.body.Len(); len(p) > room {
		a.cut = true
		a.body.Write(p[:room])
		return room, errEnough
	}
	return a.body.Write(p)
}

// records are the elements of the array in the answer, as far as they are whole.
func (a *answer) records() ([]json.RawMessage, error) {
	out := []json.RawMessage{}
	if a.body.Len() == 0 {
		return out, nil
	}
	d := json.NewDecoder(bytes.NewReader(a.body.Bytes()))
	t, err := d.Token()
	if err != nil || t != json.Delim('[') {
		return nil, fmt.Errorf("the tables answered with something else than an array: %w", err)
	}
	for d.More() {
		var record json.RawMessage
		if err := d.Decode(&record); err != nil {
			if a.cut {
				break
			}
			return nil, fmt.Errorf("reading the answer of the tables: %w", err)
		}
		out = append(out, record)
	}
	if a.cut && len(out) == 0 {
		return nil, errLarge.Msgf("the first record alone has more than %d bytes", maxBytes)
	}
	return out, nil
}

// value is the one value that the answer has; null where it has none.
func (a *answer) value() (json.RawMessage, error) {
	switch {
	case a.cut:
		return nil, errLarge.Msgf("the result has more than %d bytes", maxBytes)
	case a.body.Len() == 0:
		return json.RawMessage("null"), nil
	}
	return bytes.Clone(a.body.Bytes()), nil
}

// affected is how many records a request wrote, which it must have asked to be counted.
func (a *answer) affected() (int64, error) {
	_, total, _ := strings.Cut(a.head.ContentRange, "/")
	n, err := strconv.ParseInt(total, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the tables did not count: %w", err)
	}
	return n, nil
}
