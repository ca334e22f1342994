package clusters

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
)

// TestWhatAMemberSaysIsCut: it is repeated in the status of every member, and one of a megabyte could not be stored in any.
func TestWhatAMemberSaysIsCut(t *testing.T) {
	t.Parallel()
	endless := strings.Repeat("\u00e9", 1<<19)
	check := func(what, kept string) {
		t.Helper()
		if len(kept) == 0 || len(kept) > 256 || !utf8.ValidString(kept) {
			t.Errorf("%s: %d bytes are kept", what, len(kept))
		}
	}
	var memory leaseMemory
	// The same holder that renews is still the same one, and a second hub.
	for i, want := range []leaseStep{leaseWait, leaseWait, leaseTwoHubs} {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{ResourceVersion: string(rune('1' + i))}}
		lease.Spec.HolderIdentity = &endless
		if got := memory.observe(lease, "me", time.Unix(20, 0), time.Minute); got != want {
			t.Errorf("look %d at the Lease: %s, want %s", i, got, want)
		}
	}
	check("the holder of a Lease", memory.holder)
	check("the words of an answer", words(apierrors.NewInternalError(errors.New(endless))))
	check("any other words", words(errors.New(endless)))
	check("a version", told(endless))
	if got := told("v1.37.2"); got != "v1.37.2" {
		t.Errorf("a version is kept as %q", got)
	}
	a := newAPI(t, endless)
	client, err := dynamic.NewForConfig(a.rest())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sight(t.Context(), client); err == nil || len(err.Error()) > 300 || !strings.Contains(err.Error(), "which no UID has") {
		t.Errorf("an endless UID: %.300v", err)
	}
}

// TestACertificateIsJudgedByUs, and not by what the member says of certificates.
func TestACertificateIsJudgedByUs(t *testing.T) {
	t.Parallel()
	a := newAPI(t, "uid-1")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, a.URL+"/readyz", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err == nil {
		_ = resp.Body.Close()
	}
	if !untrusted(err) || !strings.Contains(words(err), "certificate") {
		t.Errorf("an unknown authority: untrusted %v, %q", untrusted(err), words(err))
	}
	if err := apierrors.NewInternalError(errors.New("x509: certificate 17")); untrusted(err) {
		t.Error("a member's own words make its certificate untrusted")
	}
}
