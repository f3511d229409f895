package postgres

import "time"

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

// SetKeeperPause sets how long a database rests between two restorings.
func SetKeeperPause(k *PlaneKeeper, d time.Duration) { k.pause = d }
