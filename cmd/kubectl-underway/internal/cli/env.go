package cli

import (
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/go-logr/logr"
	"golang.org/x/term"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	// Cloud users log in by auth-provider and exec plugins.
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/underway-dev/underway/apis/fleet/v1alpha1"
	"github.com/underway-dev/underway/cmd/internal/boot"
	"github.com/underway-dev/underway/hub/install"
	"github.com/underway-dev/underway/hub/screen"
)

// UserAgent is how the plugin names itself to API servers.
const UserAgent = "kubectl-underway"

// FieldManager owns what the plugin writes by itself; what it installs is owned by hub/install.
const FieldManager = "kubectl-underway"

// Connect makes a client for a cluster; tests replace it by a fake.
type Connect func(*rest.Config) (client.WithWatch, error)

// Env is the world a verb runs in.
type Env struct {
	genericiooptions.IOStreams
	Clock   clock.WithTicker
	Connect Connect
	// Config turns kubectl's flags into a client config.
	Config func(*genericclioptions.ConfigFlags) (*rest.Config, error)
}

// New is the real world.
func New() *Env {
	// The client library complains on stderr when nobody takes its log; what matters comes back as an error.
	log.SetLogger(logr.Discard())
	return &Env{
		IOStreams: genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr},
		Clock:     clock.RealClock{},
		Connect: func(cfg *rest.Config) (client.WithWatch, error) {
			return client.NewWithWatch(cfg, client.Options{Scheme: Scheme()})
		},
		Config: configOf,
	}
}

// configOf is the config that kubectl would use; where kubectl would try localhost, it is an error.
func configOf(f *genericclioptions.ConfigFlags) (*rest.Config, error) {
	raw, err := f.ToRawKubeConfigLoader().RawConfig()
	if err == nil && len(raw.Clusters) == 0 && len(raw.Contexts) == 0 && (f.APIServer == nil || *f.APIServer == "") && os.Getenv("KUBERNETES_SERVICE_HOST") == "" {
		return nil, errNoConfig
	}
	return f.ToRESTConfig()
}

// Scheme knows our kinds and Kubernetes' own.
func Scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, appsv1alpha1.AddToScheme, fleetv1alpha1.AddToScheme,
	} {
		if err := add(s); err != nil {
			panic(fmt.Sprintf("a scheme of constants cannot fail: %v", err))
		}
	}
	metav1.AddToGroupVersion(s, corev1.SchemeGroupVersion)
	return s
}

// Client connects to the cluster that the flags name.
func (e *Env) Client(flags *genericclioptions.ConfigFlags) (client.WithWatch, error) {
	cfg, err := e.RESTConfig(flags)
	if err != nil {
		return nil, err
	}
	return e.Connect(cfg)
}

// RESTConfig reads the flags, $KUBECONFIG and the default file, as kubectl does.
func (e *Env) RESTConfig(flags *genericclioptions.ConfigFlags) (*rest.Config, error) {
	cfg, err := e.Config(flags)
	if err != nil {
		return nil, fmt.Errorf("no cluster to talk to: %w", err)
	}
	cfg = rest.CopyConfig(cfg)
	cfg.UserAgent = UserAgent + "/" + boot.Version()
	cfg.QPS = -1
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return &patient{next: next, limit: requestLimit} })
	cfg.WarningHandler = rest.NewWarningWriter(e.ErrOut, rest.WarningWriterOptions{Deduplicate: true})
	return cfg, nil
}

// Served asks a member for the kinds that it serves, and says which of its groups could not be asked for.
func (e *Env) Served(cfg *rest.Config, member string) ([]schema.GroupVersionKind, error) {
	kinds, unread, err := install.Served(cfg)
	if len(unread) > 0 {
		e.Step(install.Step{
			Where: member, Action: install.Warning, Object: strings.Join(unread, ", "),
			Note: "the member does not say what it serves of these: what a hub put there of them stays unmarked; do this again when it does",
		})
	}
	return kinds, err
}

// Terminal returns the size of the terminal that stdout is, and whether it is one.
func (e *Env) Terminal() (width, height int, ok bool) {
	f, isFile := e.Out.(*os.File)
	if !isFile || !term.IsTerminal(int(f.Fd())) || os.Getenv("TERM") == "dumb" {
		return 0, 0, false
	}
	width, height, err := term.GetSize(int(f.Fd()))
	return width, height, err == nil && width > 0
}

// Style is how to draw on stdout.
func (e *Env) Style(wide, noHeaders, noColor bool) screen.Style {
	width, _, terminal := e.Terminal()
	_, unwanted := os.LookupEnv("NO_COLOR")
	style := screen.Style{Wide: wide, NoHeaders: noHeaders, Color: terminal && !noColor && !unwanted}
	if terminal && !wide {
		style.Width = width
	}
	return style
}

// Note writes one line to stderr.
func (e *Env) Note(format string, args ...any) {
	_, _ = fmt.Fprintf(e.ErrOut, format+"\n", args...)
}

// Say writes one line to stdout.
func (e *Env) Say(format string, args ...any) {
	_, _ = fmt.Fprintf(e.Out, format+"\n", args...)
}

// Step writes one step of an installation.
func (e *Env) Step(s install.Step) { e.Say("%s", s) }
