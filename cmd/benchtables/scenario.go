package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// scenario is a kind of request and what pgbench does instead.
type scenario struct {
	flag, name string
	signedIn   bool // as a user with an access token instead of with the service key
	method     string
	prefer     string
	// target writes path and query.
	target func(random *rand.Rand, into []byte) []byte
	body   func(random *rand.Rand, into []byte) []byte
	status int
	// records is how many records the answer has: oneObject and noBody stand for themselves.
	records int
	// script is pgbench's, between the pipeline's ends.
	script string
	// goal is the most that a request may cost, as a multiple of pgbench; 0 for none.
	goal float64
	// sameSize names the scenario whose measurements of the constant answer count here too.
	sameSize string
}

const (
	oneObject = -1
	noBody    = -2
)

const (
	columns = "id, author_id, title, body, views, amount, created_at, data"

	getScript  = "\\set id random(1, :rows)\n%s\nselect " + columns + " from posts where id = :id;\n"
	listScript = "\\set author random(1, :authors)\n%s\nselect " + columns + " from posts where author_id = :author order by id limit 50;\n"

	insertScript = "\\set views random(1, 100000)\n%s\n" +
		"insert into entries (author_id, title, body, views, amount, created_at, data) values (1, :title, :body, :views, :amount, :created, :data)"
)

// What is inserted, but for the number of views.
const (
	entryTitle   = "The title of a new entry"
	entryBody    = `All work and no play "makes" Jack a dull boy. All work and no play "makes" Jack a dull boy.`
	entryAmount  = "1234.56"
	entryCreated = "2025-01-01T00:00:00+00:00"
	entryData    = `{"tags": ["tag1", "tag2"], "draft": false}`
)

// scenarios are the requests that are measured, for a table of so many rows.
func scenarios(rows int) []scenario {
	full := max(rows/rowsOfAuthor, 1) // those with all their posts
	get := func(random *rand.Rand, into []byte) []byte {
		return strconv.AppendInt(append(into, "/api/v1/tables/posts/"...), int64(1+random.IntN(rows)), 10)
	}
	list := func(random *rand.Rand, into []byte) []byte {
		into = strconv.AppendInt(append(into, "/api/v1/tables/posts?author_id.eq="...), int64(1+random.IntN(full)), 10)
		return append(into, "&order=id&limit=50"...)
	}
	embed := func(random *rand.Rand, into []byte) []byte {
		into = append(into, "/api/v1/tables/posts?select=id,title,author:authors(name)&id.gte="...)
		return append(strconv.AppendInt(into, int64(1+random.IntN(rows-20)), 10), "&order=id&limit=20"...)
	}
	entries := func(_ *rand.Rand, into []byte) []byte { return append(into, "/api/v1/tables/entries"...) }
	return []scenario{
		{flag: "get", name: "one by id", method: "GET", target: get, status: 200, records: oneObject, script: getScript, goal: 1.6},
		{flag: "list", name: "list of 50", method: "GET", target: list, status: 200, records: 50, script: withAuthors(listScript, full), goal: 1.5},
		{
			flag: "embed", name: "list of 20, embedding", method: "GET", target: embed, status: 200, records: 20,
			script: fmt.Sprintf("\\set id random(1, %d)\n", rows-20) + "%s\nselect p.id, p.title, case when a.id is not null then json_build_object('name', a.name) end as author" +
				" from posts p left join authors a on a.id = p.author_id where p.id >= :id order by p.id limit 20;\n",
		},
		{
			flag: "insert", name: "insert, minimal", method: "POST", prefer: "return=minimal", target: entries, body: newEntry,
			status: 201, records: noBody, script: insertScript + ";\n",
		},
		{
			flag: "return", name: "insert, representation", method: "POST", prefer: "return=representation", target: entries, body: newEntry,
			status: 201, records: oneObject, script: insertScript + " returning " + columns + ";\n",
		},
		{
			flag: "user-get", name: "one by id, user", signedIn: true, method: "GET", target: get, status: 200, records: oneObject,
			script: getScript, goal: 1.6, sameSize: "get",
		},
		{
			flag: "user-list", name: "list of 50, user", signedIn: true, method: "GET", target: list, status: 200, records: 50,
			script: withAuthors(listScript, full), goal: 1.5, sameSize: "list",
		},
	}
}

func withAuthors(script string, authors int) string {
	return strings.Replace(script, ":authors", strconv.Itoa(authors), 1)
}

func newEntry(random *rand.Rand, into []byte) []byte {
	into = append(into, `{"author_id":1,"title":"`+entryTitle+`","body":`...)
	into = append(into, quotedBody...)
	into = append(into, `,"views":`...)
	into = strconv.AppendInt(into, int64(1+random.IntN(100_000)), 10)
	return append(into, `,"amount":`+entryAmount+`,"created_at":"`+entryCreated+`","data":`+entryData+`}`...)
}

var quotedBody = strconv.Quote(entryBody)

// request writes a whole request, as a client's library would send it. credentials are a header line.
func (s *scenario) request(addr, credentials string, random *rand.Rand, into []byte) []byte {
	into = append(append(into, s.method...), ' ')
	into = s.target(random, into)
	into = append(append(into, " HTTP/1.1\r\nHost: "...), addr...)
	into = append(append(into, "\r\nUser-Agent: benchtables\r\nAccept: application/json\r\n"...), credentials...)
	into = append(into, "\r\n"...)
	if s.prefer != "" {
		into = append(append(append(into, "Prefer: "...), s.prefer...), "\r\n"...)
	}
	return appendBody(into, s.body, random)
}

// constantRequest writes the same for the server with the constant answer.
func (s *scenario) constantRequest(addr string, size int64, random *rand.Rand, into []byte) []byte {
	into = append(append(into, s.method...), " /constant/"...)
	into = append(strconv.AppendInt(into, size, 10), " HTTP/1.1\r\nHost: "...)
	into = append(append(into, addr...), "\r\nUser-Agent: benchtables\r\nAccept: application/json\r\n"...)
	return appendBody(into, s.body, random)
}

// appendBody ends a request.
func appendBody(into []byte, body func(*rand.Rand, []byte) []byte, random *rand.Rand) []byte {
	if body == nil {
		return append(into, "\r\n"...)
	}
	content := body(random, nil)
	into = append(into, "Content-Type: application/json\r\nContent-Length: "...)
	into = append(strconv.AppendInt(into, int64(len(content)), 10), "\r\n\r\n"...)
	return append(into, content...)
}

// check holds an answer against what was asked for: a server that answers quickly with something else wins nothing.
func (s *scenario) check(a answer, body []byte) error {
	if a.status != s.status {
		return fmt.Errorf("the status is %d, not %d: %.300s", a.status, s.status, body)
	}
	switch s.records {
	case noBody:
		if len(body) > 0 {
			return fmt.Errorf("there is a body: %.300s", body)
		}
		return nil
	case oneObject:
		var object map[string]json.RawMessage
		if err := json.Unmarshal(body, &object); err != nil || len(object) != len(strings.Split(columns, ",")) {
			return fmt.Errorf("the answer is not the record: %.300s", body)
		}
		return nil
	}
	var list []map[string]json.RawMessage
	if err := json.Unmarshal(body, &list); err != nil || len(list) != s.records {
		return fmt.Errorf("the answer has %d records, not %d: %.300s", len(list), s.records, body)
	}
	if s.flag == "embed" && !bytes.Contains(list[0]["author"], []byte(`"name"`)) {
		return fmt.Errorf("no author is embedded: %.300s", body)
	}
	return nil
}
