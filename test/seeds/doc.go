// Package seeds says which random stories a test tells. Every suite of stories understands the same variables, so that one
// story can be told again, and so that test/long/cmd/seeds can cut a hundred thousand of them into slices:
//
//	UNDERWAY_SEED=n   the story n and no other
//	UNDERWAY_SEEDS=n  so many stories, instead of the few of a usual run
//	UNDERWAY_FROM=n   the first of them, else 0
package seeds
