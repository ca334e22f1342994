package boot

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
)

// Options are the flags that the hub and the agent have in common.
type Options struct {
	// Name of the binary: the user agent, and the name of the leader Lease.
	Name string
	// Kubeconfig is a file; empty means $KUBECONFIG, then the pod's own account.
	Kubeconfig string
	// MetricsAddress is where metrics are served; "0", the default, opens no port.
	MetricsAddress string
	// HealthAddress is where /healthz and /readyz are served; "0", the default, opens no port.
	HealthAddress string
	// LeaderElect makes the process wait for its leader Lease. Default true.
	LeaderElect bool
	// LeaseDuration, RenewDeadline and RetryPeriod of the leader Lease. Default 15 s, 10 s, 2 s.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
	// Verbosity of the log: 0 changes made, 2 decisions, 4 why. Default 0.
	Verbosity int
}

// Bind registers the flags.
func (o *Options) Bind(fs *flag.FlagSet) {
	fs.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig, "kubeconfig `file`; empty: $KUBECONFIG, then the pod's own account")
	fs.StringVar(&o.MetricsAddress, "metrics-bind-address", "0", "`address` of the metrics; 0 opens no port")
	fs.StringVar(&o.HealthAddress, "health-probe-bind-address", "0", "`address` of /healthz and /readyz; 0 opens no port")
	fs.BoolVar(&o.LeaderElect, "leader-elect", true, "wait for the leader Lease in "+appsv1alpha1.SystemNamespace)
	fs.DurationVar(&o.LeaseDuration, "leader-elect-lease-duration", 15*time.Second, "how long a leader Lease is valid")
	fs.DurationVar(&o.RenewDeadline, "leader-elect-renew-deadline", 10*time.Second, "how long a leader tries to renew")
	fs.DurationVar(&o.RetryPeriod, "leader-elect-retry-period", 2*time.Second, "how long between two tries")
	fs.IntVar(&o.Verbosity, "v", 0, "log `level`: 0 changes made, 2 decisions, 4 why")
}

// Config builds the rest config: no client-side rate limit, the binary's name and version as user agent.
func (o *Options) Config() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.Kubeconfig
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		cfg, err = rest.InClusterConfig()
	}
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	cfg.QPS = -1
	cfg.UserAgent = o.Name + "/" + Version()
	return cfg, nil
}

// Logger builds the logger and makes it the default of controller-runtime and klog.
func (o *Options) Logger(out io.Writer) logr.Logger {
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(out), textlogger.Verbosity(o.Verbosity))).WithName(o.Name)
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
	return logger
}

// Manager builds the manager. Edit, which may be nil, changes its options last. With leader election the namespace of
// the Lease is created when it is absent.
func (o *Options) Manager(ctx context.Context, cfg *rest.Config, scheme *runtime.Scheme, edit func(*ctrl.Options)) (ctrl.Manager, error) {
	if o.LeaderElect {
		if err := ensureNamespace(ctx, cfg); err != nil {
			return nil, err
		}
	}
	opts := ctrl.Options{
		Scheme:                        scheme,
		Logger:                        ctrl.Log,
		Metrics:                       metricsserver.Options{BindAddress: o.MetricsAddress},
		HealthProbeBindAddress:        o.HealthAddress,
		LeaderElection:                o.LeaderElect,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &o.LeaseDuration,
		RenewDeadline:                 &o.RenewDeadline,
		RetryPeriod:                   &o.RetryPeriod,
	}
	if o.LeaderElect {
		lock, err := o.lock(cfg)
		if err != nil {
			return nil, err
		}
		opts.LeaderElectionResourceLockInterface = lock
	}
	if edit != nil {
		edit(&opts)
	}
	mgr, err := ctrl.NewManager(cfg, opts)
	if err != nil {
		return nil, fmt.Errorf("building the manager: %w", err)
	}
	if err := errors.Join(mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("ping", healthz.Ping)); err != nil {
		return nil, fmt.Errorf("adding the health checks: %w", err)
	}
	return mgr, nil
}

// lock is the leader Lease. It is made here, and not by the manager, because the manager's writes an event at each change
// of the leader: a restart with nothing to do is to write nothing but Leases.
func (o *Options) lock(cfg *rest.Config) (resourcelock.Interface, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("reading the host's name: %w", err)
	}
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, appsv1alpha1.SystemNamespace, o.Name,
		resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())}, cfg, o.RenewDeadline)
	if err != nil {
		return nil, fmt.Errorf("building the leader Lease: %w", err)
	}
	if lease, ok := lock.(*resourcelock.LeaseLock); ok {
		lease.Labels = map[string]string{appsv1alpha1.LabelVersion: LabelValue(Version())}
	}
	return lock, nil
}

// ensureNamespace creates the install namespace. An account that may not read or create namespaces goes on: the
// installer has made it then, and leader election says so if not.
func ensureNamespace(ctx context.Context, cfg *rest.Config) error {
	clients, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("building a client: %w", err)
	}
	_, err = clients.CoreV1().Namespaces().Get(ctx, appsv1alpha1.SystemNamespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: appsv1alpha1.SystemNamespace}}
		_, err = clients.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{})
	}
	if err == nil || apierrors.IsAlreadyExists(err) || apierrors.IsForbidden(err) {
		return nil
	}
	return fmt.Errorf("ensuring namespace %s: %w", appsv1alpha1.SystemNamespace, err)
}

// Main parses the flags, runs the binary until it ends or is told to stop by SIGINT or SIGTERM, and returns the exit
// code: 0, 1 when it failed, 2 when the flags are wrong. Bind, which may be nil, adds flags of the binary's own.
func Main(name string, args []string, bind func(*flag.FlagSet), run func(ctx context.Context, o *Options) error) int {
	o := &Options{Name: name}
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	o.Bind(fs)
	if bind != nil {
		bind(fs)
	}
	showVersion := fs.Bool("version", false, "print the version and exit")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	if fs.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "%s takes no arguments, only flags: %q\n", name, fs.Args())
		return 2
	}
	if *showVersion {
		fmt.Println(name, Version())
		return 0
	}
	logger := o.Logger(os.Stderr)
	ctx := ctrl.LoggerInto(ctrl.SetupSignalHandler(), logger)
	logger.Info("Starting", "version", Version())
	if err := run(ctx, o); err != nil {
		logger.Error(err, "Stopped")
		return 1
	}
	logger.Info("Stopped")
	return 0
}
