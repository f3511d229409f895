package postgres

var (
	ParseMarker  = parseMarker
	SplitNames   = splitNames
	SettingValue = settingValue
	Literal      = literal
)

// Comment is a database's comment with the marker in it.
func (m Marker) Comment(original string) string { return m.comment(original) }
