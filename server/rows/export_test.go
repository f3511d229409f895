package rows

// The encoders of single values, for tests.
var (
	AppendString    = appendString
	AppendTimestamp = appendTimestamp
	AppendStripped  = appendStripped
)

// Threshold is the size up to which bodies stay in memory.
const Threshold = threshold
