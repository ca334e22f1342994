// Package freeze is `kubectl underway freeze` and `unfreeze`: one ConfigMap stops every write of the hub to every member.
package freeze
