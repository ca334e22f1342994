package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/propagation/clusters"
)

// The renewed token is stored where the old one was.
//
// +kubebuilder:rbac:groups="",namespace=underway-system,resources=secrets,verbs=get;update

// annotationRenewed is when the hub renewed the token in a member's Secret.
const annotationRenewed = "fleet.underway.dev/renewed"

// tokens renews the members' tokens and gives a renewed one to the connection that is there.
type tokens struct {
	mu      sync.Mutex
	members map[string]*tokenState
}

// tokenState is one member's.
type tokenState struct {
	attempts
	source *tokenSource
	// thrown counts the renewed tokens that somebody set back to an older one.
	thrown int
}

// tokenSource is the token of one connection: the one that it began with, and the one that has replaced it.
type tokenSource struct {
	first string
	now   atomic.Pointer[string]
	// next is being stored on the hub; the Secret may be seen before the answer of its write.
	next string
}

// wrap returns a transport that sends the present token in place of the first one.
func (s *tokenSource) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		if now := *s.now.Load(); now != s.first && req.Header.Get("Authorization") == "Bearer "+s.first {
			req = req.Clone(req.Context())
			req.Header.Set("Authorization", "Bearer "+now)
		}
		return next.RoundTrip(req)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip calls f.
func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func newTokens() *tokens { return &tokens{members: map[string]*tokenState{}} }

func (t *tokens) state(name string) *tokenState { // with mu held
	if t.members[name] == nil {
		t.members[name] = &tokenState{}
	}
	return t.members[name]
}

// forget drops what is known of a member that is gone.
func (t *tokens) forget(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.members, name)
}

func (t *tokens) attempts(name string) attempts {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state(name).attempts
}

// dress prepares a configuration for the fleet. A token that this process has put into a connection looks there like the
// token that the connection began with, so that renewing it drops neither the connection nor what is cached of the member.
func (t *tokens) dress(name string, cfg *rest.Config, now time.Time) *rest.Config {
	if cfg.BearerToken == "" {
		return cfg
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.state(name)
	token := cfg.BearerToken
	switch {
	case s.source == nil:
		s.source = newSource(token)
	case *s.source.now.Load() == token:
	case s.source.next == token:
		s.source.now.Store(&token)
		if s.why == setBack {
			s.failures, s.why = 0, ""
		}
	default:
		was := tokenOf(*s.source.now.Load())
		if s.source.first == token {
			s.source.now.Store(&token) // the connection compares by it, and stays
		} else {
			s.source = newSource(token)
		}
		s.replaced(tokenOf(token).expires.Before(was.expires), now)
	}
	out := rest.CopyConfig(cfg)
	out.BearerToken = s.source.first
	out.WrapTransport = s.source.wrap
	return out
}

func newSource(token string) *tokenSource {
	out := &tokenSource{first: token}
	out.now.Store(&token)
	return out
}

// setBack is why a renewed token is not there any more.
const setBack = "its Secret was set back to an older token (does another tool write it?)"

// settled is how long the Secret that is read may be the one from before the hub's own write.
const settled = 10 * time.Second

// replaced notes that somebody else has written the credential. Another one has another count; an older one throws away what this
// process has renewed, and is renewed later and later: who writes it again each time must not make the hub ask and write at that
// pace. Where nothing was renewed an older one is what somebody wants, and may end soon.
func (s *tokenState) replaced(older bool, now time.Time) {
	switch {
	case !older, s.renewed.IsZero():
		s.attempts = attempts{running: s.running}
	case now.Sub(s.renewed) >= settled:
		s.thrown++
		s.attempts = attempts{running: s.running, renewed: s.renewed, failed: now, failures: s.thrown, why: setBack}
	}
}

// begin is false when a request is under way already.
func (t *tokens) begin(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.state(name)
	if s.running {
		return false
	}
	s.running = true
	return true
}

// expect notes the token that is about to be stored in place of old.
func (t *tokens) expect(name, old, token string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.state(name); s.source != nil && *s.source.now.Load() == old {
		s.source.next = token
	}
}

// end notes how a renewal went.
func (t *tokens) end(name, token string, now time.Time, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.state(name)
	s.running = false
	if err != nil {
		s.failed, s.why = now, why(err)
		s.failures++
		return
	}
	s.attempts = attempts{renewed: now}
	if s.source != nil && s.source.next == token {
		s.source.now.Store(&token)
	}
}

// why puts an error into words that stay the same from try to try.
func why(err error) string {
	switch {
	case apierrors.IsForbidden(err):
		return "the hub's account may not make tokens there (it was joined by an older version)"
	case apierrors.IsNotFound(err):
		return "the hub's account is not there"
	case apierrors.IsConflict(err):
		return "its Secret on the hub was changed meanwhile"
	case errors.Is(err, clusters.ErrNotReady):
		return "the member is not ready"
	}
	return "the request failed"
}

// renew renews a member's token in a goroutine of its own, so that a slow member holds up no other.
func (r *Reconciler) renew(ctx context.Context, seen observation) {
	name := seen.member.Name
	if !r.tokens.begin(name) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), renewTimeout)
	go func() {
		defer cancel()
		token, err := r.newToken(ctx, seen)
		r.tokens.end(name, token, r.Clock.Now(), err)
		if err != nil {
			klog.FromContext(ctx).Info("Could not renew a member's token", "MemberCluster", klog.KRef("", name), "reason", err.Error())
		}
	}()
}

// newToken asks for a token and stores it beside all that the Secret has.
func (r *Reconciler) newToken(ctx context.Context, seen observation) (string, error) {
	token, err := r.Fleet.RequestToken(ctx, seen.member.Name, r.TokenLifetime)
	if err != nil {
		return "", err
	}
	fresh := tokenOf(token)
	if !fresh.renewable || !fresh.expires.After(seen.credential.expires) {
		return "", fmt.Errorf("the member's token of %s ends at %s, no later than the present one", seen.member.Name, stamp(fresh.expires))
	}
	secret := seen.secret.DeepCopy()
	file, err := clientcmd.Load(secret.Data[kubeconfigKey])
	if err != nil {
		return "", fmt.Errorf("reading the stored kubeconfig: %w", err)
	}
	user := file.AuthInfos[file.Contexts[file.CurrentContext].AuthInfo]
	if user == nil || user.Token != seen.config.BearerToken {
		return "", errors.New("the stored kubeconfig has another token")
	}
	r.tokens.expect(seen.member.Name, user.Token, token)
	user.Token = token
	raw, err := clientcmd.Write(*file)
	if err != nil {
		return "", fmt.Errorf("writing the kubeconfig: %w", err)
	}
	secret.Data[kubeconfigKey] = raw
	if secret.Annotations == nil {
		secret.Annotations = map[string]string{}
	}
	secret.Annotations[annotationRenewed] = stamp(r.Clock.Now())
	// With the resourceVersion that was read: a join that stored another credential meanwhile wins.
	if err := r.Client.Update(ctx, secret, client.FieldOwner(fieldManager)); err != nil {
		return "", fmt.Errorf("storing the renewed token: %w", err)
	}
	return token, nil
}

const fieldManager = appsv1alpha1.FieldManagerHub

// secretOf reads a member's Secret.
func (r *Reconciler) secretOf(ctx context.Context, name string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: appsv1alpha1.SystemNamespace, Name: name}, secret)
	return secret, err
}
