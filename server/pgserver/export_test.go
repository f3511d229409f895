package pgserver

import "time"

// WithLodgings sets where clusters go whose data directory cannot be entered.
func WithLodgings(o Options, dir string) Options { o.lodgings = dir; return o }

// WithWatchEvery sets how often the programs are looked at.
func WithWatchEvery(o Options, d time.Duration) Options { o.watchEvery = d; return o }

// WithLastBackOff sets the longest pause between two starts.
func WithLastBackOff(o Options, d time.Duration) Options { o.lastBackOff = d; return o }

// Installations lists all that this machine has, Bough's cache included.
func Installations() []Installation { return discover(FindOptions{CacheDir: DefaultCacheDir()}) }

// MaxFailures is how often a server may fail.
const MaxFailures = maxFailures
