//go:build faults

package repohost

import (
	"os"
	"syscall"
)

// faultPoint kills the process, as kill -9 does, at the step that BOUGH_FAULT_POINT names, such as repohost:recorded.
// Only programs built with the tag faults, for tests, do this.
func faultPoint(step string) {
	if os.Getenv("BOUGH_FAULT_POINT") == "repohost:"+step {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}
