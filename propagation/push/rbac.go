package push

// What the hub may do on a member, and nothing else. Reading namespace kube-system proves the member's identity;
// creating namespaces is bound only where a member was joined for all namespaces.
//
// +kubebuilder:rbac:groups="",resources=namespaces,resourceNames=kube-system,verbs=list
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;create
// +kubebuilder:rbac:groups=apps.kruise.io,resources=clonesets;statefulsets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=apps,resources=deployments;statefulsets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=configmaps;secrets;serviceaccounts;services,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=list
// +kubebuilder:rbac:groups=autoscaling,resources=horizontalpodautoscalers,verbs=list
// +kubebuilder:rbac:groups="",resources=podtemplates,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=underway-system,resources=leases,verbs=get;create;update
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=kruise-manager;underway-member,verbs=get
