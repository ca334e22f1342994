package join

import (
	"bytes"
	"context"
	"errors"
	"net/url"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/cmd/kubectl-underway/internal/cli"
	"github.com/underway-dev/underway/hub/install"
)

// TestOnlyARefusalReplacesAToken: the stored token is asked for what it may do. An answer that refuses it replaces it; a
// connection that breaks says nothing about it and ends the join, with words, before anything is written.
func TestOnlyARefusalReplacesAToken(t *testing.T) {
	access := install.Access{Server: "https://eu-1.example:6443"}
	raw, err := access.Kubeconfig("eu-1", "stored-token")
	if err != nil {
		t.Fatal(err)
	}
	hub := fake.NewClientBuilder().WithScheme(cli.Scheme()).WithObjects(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: appsv1alpha1.SystemNamespace, Name: install.SecretName("eu-1")},
		Data:       map[string][]byte{"kubeconfig": raw},
	}).Build()
	network := &url.Error{Op: "Get", URL: "https://eu-1.example:6443/api/v1/namespaces", Err: syscall.ECONNRESET}
	for name, tc := range map[string]struct {
		answer  error
		upgrade bool

		token, says, warns string
	}{
		"it works":                       {nil, false, "stored-token", "", ""},
		"it is refused":                  {apierrors.NewUnauthorized("expired"), false, "", "", "is replaced"},
		"it may not what it needs":       {apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, "", errors.New("no")), false, "", "", "is replaced"},
		"the connection breaks":          {network, false, "", "nothing was changed", ""},
		"no answer in time":              {context.DeadlineExceeded, false, "", "do this again", ""},
		"the member is overloaded":       {apierrors.NewTooManyRequestsError("later"), false, "", "nothing was changed", ""},
		"the member fails":               {apierrors.NewInternalError(errors.New("etcd")), false, "", "nothing was changed", ""},
		"the authority is another":       {errors.New("tls: failed to verify certificate: x509: certificate signed by unknown authority"), false, "", "--upgrade", ""},
		"it is not asked with --upgrade": {network, true, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			asHub := fake.NewClientBuilder().WithScheme(cli.Scheme()).WithInterceptorFuncs(interceptor.Funcs{
				List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
					if tc.answer == nil {
						list.(*corev1.NamespaceList).Items = []corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "eu-uid"}}}
					}
					return tc.answer
				},
			}).Build()
			j := &joiner{
				options: options{name: "eu-1", upgrade: tc.upgrade}, hubClient: hub, access: access, facts: install.Facts{Identity: "eu-uid"},
				env: &cli.Env{
					IOStreams: genericiooptions.IOStreams{Out: &out, ErrOut: &out},
					Connect:   func(*rest.Config) (client.WithWatch, error) { return asHub, nil },
				},
			}
			token, err := j.stored(t.Context())
			switch {
			case tc.says == "" && err != nil:
				t.Fatal(err)
			case tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)):
				t.Errorf("got %v, want it to say %q", err, tc.says)
			}
			if token != tc.token {
				t.Errorf("it goes on with %q, want %q", token, tc.token)
			}
			if tc.warns == "" && out.Len() > 0 || !strings.Contains(out.String(), tc.warns) {
				t.Errorf("it says %q, want %q", out.String(), tc.warns)
			}
			if strings.Contains(out.String(), "stored-token") || (err != nil && strings.Contains(err.Error(), "stored-token")) {
				t.Error("it prints the token")
			}
		})
	}
}
