//go:build !linux && !darwin && !freebsd

package diskspace

import "errors"

// Of is not known on this system.
func Of(string) (Usage, error) { return Usage{}, errors.ErrUnsupported }
