//go:build !faults

package repohost

// faultPoint marks a step after which a test kills the process, in programs built with the tag faults.
func faultPoint(string) {}
