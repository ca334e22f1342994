package clusters

import (
	"crypto/sha256"
	"encoding/hex"

	"k8s.io/apimachinery/pkg/types"
)

// HubID is 16 hex digits of the hash of the hub's kube-system UID and its nonce: what label fleet.underway.dev/hub says.
func HubID(kubeSystem types.UID, nonce string) string {
	sum := sha256.Sum256([]byte(string(kubeSystem) + "/" + nonce))
	return hex.EncodeToString(sum[:])[:16]
}
