package compile

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"unicode/utf8"
)

// ParseCSV reads lines of comma-separated values, the first of which names the columns. The word NULL stands for null,
// an empty field for the empty string.
func ParseCSV(r io.Reader) (*Body, error) {
	lines := csv.NewReader(r)
	lines.ReuseRecord = true
	header, err := lines.Read()
	if errors.Is(err, io.EOF) {
		return nil, errBody.Msgf("The body is empty; a line that names the columns is needed.")
	}
	if err != nil {
		return nil, csvError(err)
	}
	columns := make([]string, len(header))
	for i, name := range header {
		if i == 0 {
			name = strings.TrimPrefix(name, "\ufeff")
		}
		columns[i] = strings.Clone(name)
	}
	if err := checkNames(columns, "column"); err != nil {
		return nil, err
	}
	keys := make([][]byte, len(columns))
	for i, name := range columns {
		keys[i] = append(appendString(nil, name), ':')
	}
	body := &Body{Columns: columns, Uniform: true, Text: true}
	out := []byte{'['}
	for {
		record, err := lines.Read()
		if errors.Is(err, io.EOF) {
			out = append(out, ']')
			body.JSON = out
			return body, nil
		}
		if err != nil {
			return nil, csvError(err)
		}
		if body.Rows > 0 {
			out = append(out, ',')
		}
		body.Rows++
		out = append(out, '{')
		for i, value := range record {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(out, keys[i]...)
			if value == "NULL" {
				out = append(out, "null"...)
				continue
			}
			if err := checkText(value); err != nil {
				line, _ := lines.FieldPos(i)
				return nil, errBody.Msgf("Invalid CSV: line %d, column %q: %v.", line, columns[i], err)
			}
			out = appendString(out, value)
		}
		out = append(out, '}')
	}
}

func csvError(err error) error {
	var parse *csv.ParseError
	if !errors.As(err, &parse) {
		return fmt.Errorf("reading the body: %w", err)
	}
	if errors.Is(parse.Err, csv.ErrFieldCount) {
		return errBody.Msgf("All lines must have same number of fields; line %d has not as many as the first.", parse.Line)
	}
	return errBody.Msgf("Invalid CSV: line %d: %v.", parse.Line, parse.Err)
}

// ParseForm reads application/x-www-form-urlencoded data into one object of strings.
func ParseForm(data []byte) (*Body, error) {
	body := &Body{Single: true, Uniform: true, Text: true, Rows: 1}
	out := []byte("[{")
	for pair := range strings.SplitSeq(string(data), "&") {
		if pair == "" {
			continue
		}
		rawName, rawValue, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(rawName)
		if err != nil {
			return nil, errBody.Msgf("Invalid form: the name %q is not encoded correctly.", rawName)
		}
		value, err := url.QueryUnescape(rawValue)
		if err != nil {
			return nil, errBody.Msgf("Invalid form: the value of %q is not encoded correctly.", name)
		}
		if err := checkText(value); err != nil {
			return nil, errBody.Msgf("Invalid form: the value of %q: %v.", name, err)
		}
		if len(body.Columns) > 0 {
			out = append(out, ',')
		}
		body.Columns = append(body.Columns, name)
		out = append(appendString(out, name), ':')
		out = appendString(out, value)
		if len(body.Columns) > maxKeys {
			break // refused below
		}
	}
	if err := checkNames(body.Columns, "field"); err != nil {
		return nil, err
	}
	out = append(out, "}]"...)
	body.JSON = out
	return body, nil
}

func checkText(s string) error {
	if !utf8.ValidString(s) {
		return errors.New("it is not valid UTF-8")
	}
	if strings.IndexByte(s, 0) >= 0 {
		return errors.New("a zero byte cannot be stored in text")
	}
	return nil
}

// checkNames refuses names that cannot be columns, and names that come twice.
func checkNames(names []string, what string) error {
	if len(names) > maxKeys {
		return errBody.Msgf("The body has more than %d %ss.", maxKeys, what)
	}
	seen := make(map[string]bool, len(names))
	for i, name := range names {
		if name == "" {
			return errBody.Msgf("The name of %s %d is empty.", what, i+1)
		}
		if err := checkText(name); err != nil {
			return errBody.Msgf("The name of %s %d: %v.", what, i+1, err)
		}
		if seen[name] {
			return errBody.Msgf("The %s %q comes twice.", what, name)
		}
		seen[name] = true
	}
	return nil
}
