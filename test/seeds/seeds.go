package seeds

import (
	"os"
	"strconv"
	"testing"
)

// Range is the seeds to tell the stories of: from, and those up to, but without, to. Usually are as many as a test tells when
// nothing is asked for. A variable that is no number of that kind fails the test.
func Range(tb testing.TB, usually uint64) (from, to uint64) {
	tb.Helper()
	if one, asked := number(tb, "UNDERWAY_SEED"); asked {
		return one, one + 1
	}
	from, _ = number(tb, "UNDERWAY_FROM")
	if n, asked := number(tb, "UNDERWAY_SEEDS"); asked {
		usually = n
	}
	return from, from + usually
}

func number(tb testing.TB, variable string) (n uint64, asked bool) {
	tb.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return 0, false
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		tb.Fatalf("%s: %v", variable, err)
	}
	return n, true
}
