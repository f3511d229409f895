package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
)

// pageRows is how many rows a request asks for.
const pageRows = 20

// scenario is a kind of request.
type scenario struct {
	name string
	// base is the scenario that this one is compared with; "" for none.
	base string
	// request writes a request for the rows after the one with that id.
	request func(addr string, after int) []byte
	// check looks at an answer to it.
	check func(body []byte, after int) error
}

const overTables, overMCP, simpleMCP = "tables API", "query_table", "query_table, bare"

var scenarios = []scenario{
	{name: overTables, request: tablesRequest, check: checkTables},
	{name: overMCP, base: overTables, request: func(addr string, after int) []byte { return mcpRequest(addr, "tools/call", call(after), true) }, check: checkCall},
	{name: simpleMCP, base: overTables, request: func(addr string, after int) []byte { return mcpRequest(addr, "tools/call", call(after), false) }, check: checkCall},
	{name: "tools/list", request: func(addr string, _ int) []byte { return mcpRequest(addr, "tools/list", map[string]any{}, true) }, check: checkList},
}

// tablesRequest asks as a program does that knows the API.
func tablesRequest(addr string, after int) []byte {
	return fmt.Appendf(nil, "GET /api/v1/tables/items?id.gt=%d&order=id.asc&limit=%d HTTP/1.1\r\nHost: %s\r\nX-Service-Key: %s\r\n\r\n", after, pageRows, addr, serviceKey)
}

// call asks the same as tablesRequest does.
func call(after int) map[string]any {
	return map[string]any{"name": "query_table", "arguments": map[string]any{
		"table": "items", "filters": []any{map[string]any{"column": "id", "op": "gt", "value": after}},
		"order": []any{map[string]any{"column": "id"}}, "limit": pageRows,
	}}
}

const revision = "2026-07-28"

// mcpRequest asks as clients of the current revision do, or as a line of curl does.
func mcpRequest(addr, method string, params map[string]any, current bool) []byte {
	headers := ""
	if current {
		params["_meta"] = map[string]any{
			"io.modelcontextprotocol/protocolVersion": revision, "io.modelcontextprotocol/clientCapabilities": map[string]any{},
			"io.modelcontextprotocol/clientInfo": map[string]any{"name": "benchmcp", "version": "1"},
		}
		headers = fmt.Sprintf("Mcp-Protocol-Version: %s\r\nMcp-Method: %s\r\n", revision, method)
		if name, ok := params["name"].(string); ok {
			headers += "Mcp-Name: " + name + "\r\n"
		}
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		panic(err) // it is made of texts and numbers
	}
	return fmt.Appendf(nil, "POST /mcp HTTP/1.1\r\nHost: %s\r\nX-Service-Key: %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n%sContent-Length: %d\r\n\r\n%s",
		addr, serviceKey, headers, len(body), body)
}

type item struct {
	ID int `json:"id"`
}

func checkPage(page []item, after int) error {
	if len(page) != pageRows || page[0].ID != after+1 || page[pageRows-1].ID != after+pageRows {
		return fmt.Errorf("the answer has %d rows, %v", len(page), page)
	}
	return nil
}

func checkTables(body []byte, after int) error {
	var page []item
	if err := json.Unmarshal(body, &page); err != nil {
		return err
	}
	return checkPage(page, after)
}

func checkCall(body []byte, after int) error {
	var answer struct {
		Result struct {
			IsError    bool `json:"isError"`
			Structured struct {
				Rows []item `json:"rows"`
			} `json:"structuredContent"`
		} `json:"result"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return err
	}
	if answer.Result.IsError {
		return fmt.Errorf("the tool failed: %.300s", body)
	}
	return checkPage(answer.Result.Structured.Rows, after)
}

func checkList(body []byte, _ int) error {
	var answer struct {
		Result struct {
			Tools []any `json:"tools"`
		} `json:"result"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return err
	}
	if len(answer.Result.Tools) == 0 {
		return fmt.Errorf("the list has no tools: %.300s", body)
	}
	return nil
}

// tryOnce asks once, looks at the answer and returns its length.
func (s *scenario) tryOnce(addr string, rows int) (int, error) {
	c := &client{addr: addr}
	defer c.close()
	after := rand.IntN(rows - pageRows)
	var body bytes.Buffer
	status, err := c.do(s.request(addr, after), &body)
	if err != nil {
		return 0, err
	}
	if status != http.StatusOK {
		return 0, fmt.Errorf("answered %s: %.300s", strconv.Itoa(status), body.Bytes())
	}
	return body.Len(), s.check(body.Bytes(), after)
}
