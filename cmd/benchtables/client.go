package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// client speaks HTTP/1.1 over one connection that it keeps. It knows just enough of the protocol: that of net/http would
// take more of the machine than what is measured.
type client struct {
	addr string
	conn net.Conn
	in   *bufio.Reader
}

// patience is how long an answer may take.
const patience = 20 * time.Second

func (c *client) connect() error {
	if c.conn != nil {
		return nil
	}
	conn, err := net.DialTimeout("tcp", c.addr, patience) //nolint:noctx // bounded by its own time
	if err != nil {
		return err
	}
	c.conn, c.in = conn, bufio.NewReaderSize(conn, 64<<10)
	return nil
}

func (c *client) close() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

// answer is how a request was answered.
type answer struct {
	status    int
	size      int64
	firstByte time.Duration // of the body; until the head where there is no body
	problem   string        // the body of an error that nobody else wanted
}

// do sends a request as it is and reads the answer; the body is written to body, unless that is nil. After an error the
// connection is closed, to be opened anew.
func (c *client) do(request []byte, body io.Writer) (a answer, err error) {
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	if err := c.connect(); err != nil {
		return a, err
	}
	began := time.Now()
	if err := c.conn.SetDeadline(began.Add(patience)); err != nil {
		return a, err
	}
	if _, err := c.conn.Write(request); err != nil {
		return a, err
	}
	status, length, last, err := c.readHead()
	if err != nil {
		return a, err
	}
	a.status = status
	var problem bytes.Buffer
	switch {
	case body != nil:
	case status >= 400:
		body = &problem
		defer func() { a.problem = problem.String() }()
	default:
		body = io.Discard
	}
	if length != 0 {
		if _, err := c.in.Peek(1); err != nil {
			return a, err
		}
	}
	a.firstByte = time.Since(began)
	switch {
	case length == chunked:
		a.size, err = c.readChunks(body)
	case length > 0:
		a.size, err = c.copy(body, length)
	}
	if last {
		c.close()
	}
	return a, err
}

// chunked stands for the length of a body that comes in chunks.
const chunked = -1

var errForm = errors.New("the answer is not in the form of HTTP/1.1")

// readHead reads status and headers. last says that the server closes the connection.
func (c *client) readHead() (status int, length int64, last bool, err error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return 0, 0, false, err
	}
	if !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) || len(line) < 12 {
		return 0, 0, false, errForm
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, 0, false, errForm
	}
	for {
		line, err = c.in.ReadSlice('\n')
		if err != nil {
			return 0, 0, false, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			return status, length, last, nil
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.ParseInt(string(value), 10, 64); err != nil || length < 0 {
				return 0, 0, false, errForm
			}
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			length = chunked
		case bytes.EqualFold(name, []byte("Connection")):
			last = bytes.EqualFold(value, []byte("close"))
		}
	}
}

func (c *client) copy(body io.Writer, n int64) (int64, error) {
	if body == io.Discard && n <= int64(c.in.Size()) {
		discarded, err := c.in.Discard(int(n))
		return int64(discarded), err
	}
	return io.CopyN(body, c.in, n)
}

func (c *client) readChunks(body io.Writer) (total int64, err error) {
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return total, unexpected(err)
		}
		n, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 16, 64)
		if err != nil {
			return total, errForm
		}
		if n > 0 {
			copied, err := c.copy(body, n)
			if total += copied; err != nil {
				return total, unexpected(err)
			}
		}
		if _, err := c.in.Discard(2); err != nil { // the line's end
			return total, unexpected(err)
		}
		if n == 0 {
			return total, nil
		}
	}
}

// unexpected tells a body that was cut off from a connection that was closed between answers.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("the body was cut off: %w", io.ErrUnexpectedEOF)
	}
	return err
}
