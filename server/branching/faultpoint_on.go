//go:build faults

package branching

import (
	"os"
	"syscall"
)

// faultPoint kills the process, as kill -9 does, at the step that BOUGH_FAULT_POINT names: the branch's status and
// the step, such as creating:cloned. Only programs built with the tag faults, for tests, do this.
func faultPoint(b Branch, step string) {
	if os.Getenv("BOUGH_FAULT_POINT") == string(b.Status)+":"+step {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}
