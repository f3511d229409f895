package auth

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// A value that is not read within this time is an error for everybody who waits for it.
const readTimeout = 5 * time.Second

// shared is a value that many requests use and that is read rarely. Of requests that need it at the same time one reads
// it and the others wait for the result; those that have what they need from the value at hand never wait. The zero
// value is empty.
type shared[T any] struct {
	mu    sync.Mutex
	value T
	read  time.Time // when the value was read; zero where there is none
	// forgotten counts calls of forget, so that what was read before one is not kept after it.
	forgotten uint64
	reads     singleflight.Group
}

// get returns the value and how old it is; ok is false where there is none.
func (s *shared[T]) get() (value T, age time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.value, time.Since(s.read), !s.read.IsZero()
}

// forget drops the value. A read that is under way is not used by those who ask from now on.
func (s *shared[T]) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var none T
	s.value, s.read = none, time.Time{}
	s.forgotten++
	s.reads.Forget("")
}

// load reads the value and keeps it. The read goes on when the caller who began it is gone, since others may wait for it.
func (s *shared[T]) load(ctx context.Context, read func(context.Context) (T, error)) (T, error) {
	v, err, _ := s.reads.Do("", func() (any, error) {
		s.mu.Lock()
		forgotten := s.forgotten
		s.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
		defer cancel()
		at := time.Now()
		value, err := read(ctx)
		if err != nil {
			return value, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.forgotten == forgotten {
			s.value, s.read = value, at
		}
		return value, nil
	})
	value, _ := v.(T) // a failed read may have none
	return value, err
}
