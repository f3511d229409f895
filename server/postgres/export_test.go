package postgres

import (
	"context"
	"time"
)

var (
	ParseMarker  = parseMarker
	SplitNames   = splitNames
	SettingValue = settingValue
	Literal      = literal
)

// SetQuiet sets after which silence a watching session is looked after.
func (p *Pools) SetQuiet(d time.Duration) { p.quiet = d }

// Comment is a database's comment with the marker in it.
func (m Marker) Comment(original string) string { return m.comment(original) }

// SchemaVersion is the version of a database's schema.
func (c *Cluster) SchemaVersion(ctx context.Context, database string) (string, error) {
	conn, err := c.connect(ctx, database, "")
	if err != nil {
		return "", err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return schemaVersion(ctx, conn)
}

// SetKeeperPause sets how long a database rests between two restorings.
func SetKeeperPause(k *PlaneKeeper, d time.Duration) { k.pause = d }

// Expect sets how long a strategy is expected to take.
func (c *Cluster) Expect(s Strategy, perByte, perFile float64) {
	c.rateMu.Lock()
	defer c.rateMu.Unlock()
	c.rates[s] = rate{perByte, perFile}
}

// Estimate is how long a strategy is expected to take.
func (c *Cluster) Estimate(s Strategy, bytes, files int64) time.Duration {
	return c.estimate(s, extent{bytes, files})
}

// Measure tells how long a strategy took.
func (c *Cluster) Measure(s Strategy, bytes, files int64, took time.Duration) {
	c.measure(s, extent{bytes, files}, took)
}
