// Package rbac proves that the roles of our accounts are the least that the product works with.
//
// Two halves. Without a cluster: every verb in config is claimed by a marker beside the code, and the other way round; no
// wildcard; no verb granted twice. On a lab: a hub and a member run by their accounts, with their roles only, through what
// they have to do; the audit logs say which verbs were used. Then
//
//	granted and not used   one verb too many, unless rare() names the path that uses it and the test that proves that path
//	refused (403)          one verb is missing, unless probes() names it
//	rare and used          fine, and logged: what hangs on timing is used now and not then
//	rare and not granted   the entry is out of date
//
// To add a verb: the marker beside the code, `make generate` (for what the hub does on a member: config/member/hub-access
// by hand), and either a step in scenario_test.go that uses it or a line in rare().
package rbac
