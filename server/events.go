package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/boughdb/bough/server/duration"
	"github.com/boughdb/bough/server/events"
	"github.com/boughdb/bough/server/safedial"
)

// EventsConfig are the settings of events and webhooks.
type EventsConfig struct {
	ExpiringNotice      time.Duration
	Retention           time.Duration
	AllowPrivateTargets bool
	Retries             []string // as package duration reads them
}

func (c *EventsConfig) settings(f *pflag.FlagSet) {
	retries := make([]string, len(events.DefaultRetries))
	for i, d := range events.DefaultRetries {
		retries[i] = duration.Format(d)
	}
	f.Var(durationVar(&c.ExpiringNotice, "1h"), "events.expiring-notice", "how long before a branch expires its webhooks are told")
	f.Var(durationVar(&c.Retention, "30d"), "events.retention", "how long events and their deliveries are kept")
	f.BoolVar(&c.AllowPrivateTargets, "events.allow-private-targets", false, "let webhooks, and reports to repository hosts, go to private networks and this machine, and over plain http")
	f.StringSliceVar(&c.Retries, "events.retries", retries, "waits before the second try of a delivery and those that follow")
}

func (c *EventsConfig) check() error {
	var errs []error
	if _, err := c.retries(); err != nil {
		errs = append(errs, fmt.Errorf("events.retries: %w", err))
	}
	if len(c.Retries) > 20 {
		errs = append(errs, errors.New("events.retries: must be at most 20"))
	}
	if c.Retention < time.Hour {
		errs = append(errs, errors.New("events.retention: must be at least 1 hour"))
	}
	return errors.Join(errs...)
}

func (c *EventsConfig) retries() ([]time.Duration, error) {
	out := make([]time.Duration, len(c.Retries))
	for i, text := range c.Retries {
		var err error
		if out[i], err = duration.Parse(strings.TrimSpace(text)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// newEvents makes the service of webhooks and has it told of what happens to branches.
func (s *server) newEvents() error {
	retries, err := s.cfg.Events.retries()
	if err != nil {
		return err // checked by Config
	}
	vault, err := s.cfg.vault("webhook secrets")
	if err != nil {
		return err
	}
	s.events = events.New(s.planes.Control, events.Config{
		Vault: vault, Targets: s.cfg.targets(), Retries: retries, Retention: s.cfg.Events.Retention,
	}, s.log)
	s.branches.SetPublisher(s.events.Publish)
	s.registry.MustRegister(pendingCollector{s.events, s.log})
	return nil
}

// targets says where requests to the URLs of administrators may go.
func (c *Config) targets() safedial.Options {
	private := c.Events.AllowPrivateTargets
	return safedial.Options{AllowLoopback: private || c.servesThisMachineOnly(), AllowPrivate: private, Setting: "events.allow_private_targets"}
}

// servesThisMachineOnly reports whether nobody on another machine is meant to reach the server: it listens on a loopback
// address, and no public URL says that a proxy before it does more. A developer's webhooks may then go to programs
// beside it; anywhere else that would open what was meant for the machine itself.
func (c *Config) servesThisMachineOnly() bool {
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil || !isLoopback(host) {
		return false
	}
	u, err := url.Parse(c.BaseURL())
	return err == nil && isLoopback(u.Hostname())
}

// pendingCollector counts the deliveries on their way when metrics are asked for. Many, for long, tell of endpoints that
// fail or of too few processes.
type pendingCollector struct {
	events *events.Service
	log    *slog.Logger
}

var pendingDesc = prometheus.NewDesc("bough_webhook_deliveries_pending", "Deliveries to webhooks that are on their way.", nil, nil)

func (pendingCollector) Describe(ch chan<- *prometheus.Desc) { ch <- pendingDesc }

func (c pendingCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	n, err := c.events.Pending(ctx)
	if err != nil {
		c.log.Warn("counting deliveries for metrics", "error", err)
		return
	}
	ch <- prometheus.MustNewConstMetric(pendingDesc, prometheus.GaugeValue, float64(n))
}
