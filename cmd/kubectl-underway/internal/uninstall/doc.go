// Package uninstall is `kubectl underway uninstall`: it takes Underway off the hub and off its members.
package uninstall
