// Package long holds tests on the lab that take minutes: `make test-long` runs them, other runs say that they are skipped.
package long
