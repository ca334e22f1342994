// Package revision turns a raw template into a content hash and plans the history of a workload's ControllerRevisions.
//
// Templates are hashed as raw JSON, never through Go types: keys sorted, nulls and empty maps dropped, numbers kept as
// they were written. So a field newer than this build counts, and a default that the API server adds to one cluster only
// is the only thing that can make hashes differ. The hashes are frozen by golden files: a change of the algorithm would
// restart every pod of every workload at the next upgrade.
package revision
