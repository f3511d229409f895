package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"

	"github.com/gin-gonic/gin"
)

// serveConstant answers every request with as many bytes as its path asks for, as a handler of gin does that has nothing
// to do. It writes its address to out and ends with its standard input, that is with who started it.
func serveConstant(out io.Writer) error {
	gin.SetMode(gin.ReleaseMode)
	body := bytes.Repeat([]byte("x"), 1<<20)
	engine := gin.New()
	handle := func(c *gin.Context) {
		n, err := strconv.Atoi(c.Param("size"))
		if err != nil || n < 0 || n > len(body) {
			c.Status(http.StatusBadRequest)
			return
		}
		if _, err := io.Copy(io.Discard, c.Request.Body); err != nil {
			c.Status(http.StatusBadRequest)
			return
		}
		c.Header("Content-Length", strconv.Itoa(n))
		c.Data(http.StatusOK, "application/json; charset=utf-8", body[:n])
	}
	engine.GET("/constant/:size", handle)
	engine.POST("/constant/:size", handle)
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // local
	if err != nil {
		return err
	}
	fmt.Fprintln(out, listener.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	return http.Serve(listener, engine) //nolint:gosec // its only client is trusted
}
