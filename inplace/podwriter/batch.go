package podwriter

import (
	"errors"
	"fmt"
	"sync"
)

// maxErrors bounds the errors that are kept of one batch; a broken API server gives one per pod.
const maxErrors = 10

// parallel runs f for 0..n-1 with at most workers at once and joins the errors.
func parallel(n int, f func(int) error) error {
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex
		errs   []error
		failed int
	)
	next := make(chan int)
	for range min(n, workers) {
		wg.Go(func() {
			for i := range next {
				if err := f(i); err != nil {
					mu.Lock()
					if failed++; failed <= maxErrors {
						errs = append(errs, err)
					}
					mu.Unlock()
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
	if failed > maxErrors {
		errs = append(errs, fmt.Errorf("and %d more", failed-maxErrors))
	}
	return errors.Join(errs...)
}

// slowStart runs f for 0..n-1 in batches of 1, 2, 4, ... and stops after the first batch with an error: what cannot be
// done is tried once and not a thousand times.
func slowStart(n int, f func(int) error) error {
	for begin, size := 0, 1; begin < n; begin, size = begin+size, size*2 {
		first := begin
		if err := parallel(min(size, n-begin), func(i int) error { return f(first + i) }); err != nil {
			return err
		}
	}
	return nil
}
