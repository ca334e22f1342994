// Package lab starts a fleet of real Kubernetes control planes on one machine,
// without Docker: a hub and its members, each with etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler and nodes, simulated (KWOK) or real
// (kubelet, containerd, runc). The demo, the integration tests and the benchmarks run on it. It imports nothing of
// ours, so that what it shows is what a cluster shows.
//
//	fleet, err := lab.Start(ctx, lab.Options{Members: 3, Nodes: 3, Audit: true, Log: os.Stderr})
//	defer fleet.Stop()
//	client := kubernetes.NewForConfigOrDie(fleet.Member("member-1").RESTConfig())
//	agent, err := fleet.Run("agent-1", binary, []string{"--kubeconfig", fleet.Member("member-1").Kubeconfig()}, nil)
//
// # Clusters
//
// Members are named member-1, member-2 ... unless Options.MemberNames says
// otherwise; the hub is named hub. Nodes are named <cluster>-node-<n>, n from 0,
// carry the label type=kwok, [PoolLabel] (a, b in turn) and the topology labels
// (region = the cluster, zones a, b, c in turn), and have room for 2000 pods.
//
// [Cluster.Stop], [Cluster.Start], [Cluster.Restart], [Cluster.Pause] and
// [Cluster.Resume] act on parts (none named: all of them), and keep addresses,
// credentials and data. [Cluster.Wipe] keeps addresses and credentials and
// forgets the data: another cluster under the same name, with a kube-system
// namespace of another UID. [Cluster.Backup] and [Cluster.Restore] play a
// restored etcd. [Cluster.Link] is a way to the API server that can be cut,
// frozen, refused, slowed and led to another cluster; [Cluster.Gateway] is one
// that delays or answers requests by their kind. [Cluster.KubeconfigFor] issues
// a credential that expires.
//
//	way, err := fleet.Member("member-1").Gateway()
//	path, err := way.KubeconfigFor("admin", []string{"system:masters"}, time.Hour) // for join
//	way.Disturb(lab.SlowLists(10 * time.Second))  // or lab.SlowCalls, or a function
//	way.Freeze()                                  // nothing answers, nothing breaks
//	err = way.Mend()
//	hub.Pause()                                   // SIGSTOP of a process of fleet.Run
//
// With Options.Audit every request but the reads of Kubernetes' own components
// is in the audit log; [Cluster.Mark] and [Cluster.Since] count requests.
//
// # Images of simulated nodes
//
// A simulated kubelet does what a real one was seen doing. It first reports the
// pod's new observedGeneration (the old container still runs), and half a second
// later the changed containers, and only those, have a new containerID, imageID
// and startedAt and a restartCount one higher. It respects readiness gates,
// leaves conditions of others alone, lists containers by name, restarts native
// sidecars alone, and follows a resize without a restart. Pods whose
// restartPolicy is not Always complete after a second.
//
// An image misbehaves when its reference, name or tag, holds one of these words
// (several may be combined; N is a number, s or ms its unit):
//
//	never-ready     the container runs and never becomes ready
//	slow-pull-Ns    the old container goes on for N before the new one runs
//	slow-start-Ns   the new container runs N before it is ready
//	slow-stop-Ns    a deleted pod takes N to go, its grace period at most
//	pull-fails      ErrImagePull; image, imageID and containerID stay the old ones
//	crash           CrashLoopBackOff, restarting after 10 s, 20 s, 40 s ...
//	same-digest     in the name: all tags of it are one image, so imageID does
//	                not change and status.image goes on naming the first tag
//	prefixed        status.image is docker.io/library/<image>
//	runs-forever    a pod of restartPolicy Never or OnFailure does not complete
//	exit-1          such a pod fails instead of completing
//
// # Real nodes
//
// Options.RealNodes gives each member kubelets that run containers, beside its
// simulated nodes or, with Options.Nodes 0, instead of them. It takes root, and a
// machine that lets runc run: [CanRunContainers] says whether it does, and suites
// that need it skip, loudly, when it does not.
//
//	node := fleet.Member("member-1").RealNodes()[0]
//	node.StopKubelet()                       // containers go on
//	node.Exec(ctx, "default", "web-0", "main", "/app", "cat", "/data/file")
//	traffic, err := lab.StartTraffic(ctx, member.RESTConfig(), lab.TrafficOptions{Namespace: "default", Service: "web"})
//	report := traffic.Stop()                 // report.Failures
//
// They are named <cluster>-real-<n>, carry type=real and the other labels that
// simulated nodes carry, and no taint: in a member with both kinds pods choose by
// nodeSelector (a pod that does not may land on either). Their room is [RealCPU],
// [RealMemory] and [RealPods] on every machine, so that a resize can be made to
// wait. The images are those of [Image], with imagePullPolicy Never.
//
// Pods have addresses of 198.18.0.0/15, a /24 per node, and can be reached from
// this machine and from each other. There is no kube-proxy and no name server:
// cluster IPs and names of services lead nowhere; [StartTraffic] follows
// EndpointSlices. Exec, logs and port-forward work through the API server.
//
// A kubelet that is away is noticed after 50 s (the node gets NotReady and
// tainted, its pods not ready), and pods without a toleration of their own are
// evicted 300 s later: Kubernetes' defaults, which the lab leaves alone.
//
// Stop, Kill, Pause and Start of a [Cluster] are about its control plane; its
// nodes go on, as they would. [Cluster.Wipe] makes the nodes anew.
//
// # What it owns
//
// Every process is killed by the kernel when the process that called [Start] is
// gone, however that happened, and what is left of its directory is removed by
// the next Start. A detached fleet (the command lab) outlives its creator; the
// state file in its directory names its processes by pid and start time, and
// they carry a random mark in their environment, so that [Down] ends exactly
// these. A real node's processes are in a PID namespace whose first process is
// such a process, so containers end in the same moment; mounts, network
// namespaces and links go with them, and cgroups, named by the mark, are removed
// by Stop, Down or the next Start.
//
// The binaries are built on first use from test/lab/binaries into a cache
// outside the tree: $UNDERWAY_LAB_CACHE, by default underway-lab in the user's
// cache folder.
package lab
