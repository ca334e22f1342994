// Package recorder records events so that each of them can be read. It is used by the hub and by the agent.
package recorder
