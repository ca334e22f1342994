// Package version is `kubectl underway version`: this plugin, the hub, and who reconciles in each member.
package version
