// Package root puts the verbs of kubectl-underway together.
package root
