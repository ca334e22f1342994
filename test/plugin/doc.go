// Package plugin runs the real kubectl-underway against real control planes: what it installs, what the hub's account may
// and may not do, that doing it twice changes nothing, and what it refuses. Its tests have the build tag lab.
package plugin
