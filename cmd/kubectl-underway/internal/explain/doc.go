// Package explain is `kubectl underway explain`: why a UnitedDeployment is not moving, per subset what it waits for, since
// when, and the command that moves it.
package explain
