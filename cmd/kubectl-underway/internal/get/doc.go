// Package get is `kubectl underway get`: the members of the fleet, and the tree of a UnitedDeployment.
//
// Machine formats print what the server has, fields this build does not know included; the human form is hub/screen's.
package get
