package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// large is what an answer with all rows is like.
type large struct {
	FirstByte, Total time.Duration // medians
	Bytes            int64
	Memory           memory
}

// measureLarge asks for all rows at once.
func (b *bench) measureLarge(ctx context.Context, p *program) error {
	if err := forgetPeak(p.pid()); err != nil {
		return err
	}
	c := &client{addr: p.addr}
	defer c.close()
	request := []byte("GET /api/v1/tables/posts HTTP/1.1\r\nHost: " + p.addr + "\r\nX-Service-Key: " + serviceKey + "\r\n\r\n")
	var first, total []float64
	out := &large{}
	for range b.rounds {
		began := time.Now()
		lines := &counter{}
		a, err := c.do(request, lines)
		if err == nil && (a.status != 200 || lines.n != b.rows) {
			err = fmt.Errorf("the answer has status %d and %d of %d records", a.status, lines.n, b.rows)
		}
		if err != nil {
			return err
		}
		first, total = append(first, float64(a.firstByte)), append(total, float64(time.Since(began)))
		out.Bytes = a.size
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	var err error
	out.FirstByte, out.Total = time.Duration(median(first)), time.Duration(median(total))
	out.Memory, err = memoryOf(p.pid())
	b.report.Large = out
	b.remark("an answer of %d rows: first byte after %v", b.rows, out.FirstByte)
	return err
}

// counter counts records by what stands once in each: the name of the column title.
type counter struct {
	n     int
	state int
}

func (c *counter) Write(p []byte) (int, error) {
	const mark = `"title":`
	for _, x := range p {
		switch x {
		case mark[c.state]:
			c.state++
		case mark[0]:
			c.state = 1
		default:
			c.state = 0
		}
		if c.state == len(mark) {
			c.n++
			c.state = 0
		}
	}
	return len(p), nil
}

// wide is what a large schema costs.
type wide struct {
	Ready, FirstAnswer time.Duration // from the start of the process until it serves; from then until the first answer
	Added              float64       // to the CPU time of a request by id, in microseconds
	Without            float64
	Memory             memory
}

// measureWide starts a server on a database with very many tables, and compares requests by id with those to a server
// that has few.
func (b *bench) measureWide(ctx context.Context, few *program, start func(name string) (*program, error)) error {
	// The first start makes the control database, which is not what is measured.
	first, err := start(wideDatabase)
	if err != nil {
		return err
	}
	if err := first.stop(); err != nil {
		return err
	}
	p, err := start(wideDatabase)
	if err != nil {
		return err
	}
	defer p.stop() //nolint:errcheck // the second time; below it counts
	get := scenarios(b.rows)[0]
	began := time.Now()
	if _, err := get.answerOnce(p.addr, "X-Service-Key: "+serviceKey); err != nil {
		return err
	}
	out := &wide{Ready: p.ready, FirstAnswer: time.Since(began)}
	b.remark("a server with %d tables more: first answer %v after it was ready", wideTables, out.FirstAnswer.Round(time.Millisecond))
	cpu := map[*program][]float64{}
	for range b.rounds {
		for _, of := range []*program{few, p} {
			l := load{addr: of.addr, connections: b.connections, status: 200, next: func(random *rand.Rand, into []byte) []byte {
				return get.request(of.addr, "X-Service-Key: "+serviceKey, random, into)
			}}
			_, took, err := b.underLoad(ctx, l, b.duration, func() (time.Duration, error) { return cpuOf(of.pid()) }, b.postgresCPU)
			if err != nil {
				return err
			}
			cpu[of] = append(cpu[of], took[0]+took[1])
		}
	}
	var added []float64
	for i := range cpu[p] {
		added = append(added, cpu[p][i]-cpu[few][i])
	}
	out.Added, out.Without = median(added), median(cpu[few])
	if out.Memory, err = memoryOf(p.pid()); err != nil {
		return err
	}
	b.report.Wide = out
	return p.stop()
}

// changes is what clients see of changes of the schema.
type changes struct {
	Statements, Requests, Failed int
	// Deadlocks counts the changes that had to be tried again: they lock several tables, as requests do, in their order.
	Deadlocks int
	Longest   time.Duration
}

// ddlPause is the time between two changes of the schema.
const ddlPause = 40 * time.Millisecond

// measureDDL changes the schema while clients read and write.
func (b *bench) measureDDL(ctx context.Context, p *program, url string) error {
	kinds := scenarios(b.rows)
	credentials := "X-Service-Key: " + serviceKey
	var loads []*running
	// The entries are asked for by name of columns that stay, and not.
	for _, s := range []scenario{kinds[0], kinds[1], kinds[2], kinds[4]} {
		l := load{addr: p.addr, connections: max(b.connections/4, 1), status: s.status, next: func(random *rand.Rand, into []byte) []byte {
			return s.request(p.addr, credentials, random, into)
		}}
		loads = append(loads, l.start(ctx))
	}
	sleep(ctx, warmUp)
	for _, l := range loads {
		l.mark()
	}
	out := &changes{}
	err := b.onDatabase(ctx, url, func(conn *pgx.Conn) error {
		end := time.Now().Add(2 * b.duration)
		for i := 0; time.Now().Before(end) && ctx.Err() == nil; i++ {
			n := strconv.Itoa(i)
			for _, sql := range []string{
				"alter table posts add column extra_" + n + " text default 'x'",
				"create table made_" + n + " (id bigint primary key, post_id bigint references posts, author_id bigint references authors)",
				"alter table entries add column extra_" + n + " int",
				"alter table posts drop column extra_" + n,
				"alter table entries drop column extra_" + n,
				"drop table made_" + n,
			} {
				var deadlock *pgconn.PgError
				_, err := conn.Exec(ctx, sql)
				for errors.As(err, &deadlock) && deadlock.Code == "40P01" {
					out.Deadlocks++
					_, err = conn.Exec(ctx, sql)
				}
				if err != nil {
					return fmt.Errorf("%s: %w", sql, err)
				}
				out.Statements++
				sleep(ctx, ddlPause)
			}
		}
		return nil
	})
	for _, l := range loads {
		t := l.stop()
		out.Requests += t.requests + t.failed
		out.Failed += t.failed
		out.Longest = max(out.Longest, t.quantile(1))
		if t.failed > 0 {
			b.report.note(fmt.Sprintf("a request failed while the schema changed: %v", t.firstErr))
		}
	}
	b.report.Changes = out
	return err
}
