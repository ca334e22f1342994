// Package order has the comparators that say which pod moves first. Every order is total: ties end at the name.
package order
