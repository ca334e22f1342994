// Package claims says which PersistentVolumeClaims belong to the pods of a workload with volumeClaimTemplates: one per
// template and pod, named <template>-<workload>-<id> and labelled with the pod's id, as OpenKruise names them. It creates
// and deletes nothing.
//
// What becomes of a pod's claims, by what ends the pod (member/cloneset/plan decides it; "reuse" is disablePVCReuse not set
// in v1alpha1, enablePVCReuse set in v1beta1):
//
//	cause                                       reuse                                    no reuse
//	scale-in                                    deleted with the pod                     deleted with the pod
//	specified-delete, replaced                  kept; the next pod has the id            deleted when the pod is gone
//	podsToDelete, replaced                      kept; a pod has the id again when its    deleted when the pod is gone
//	                                            name is not in the list any more
//	recreate-update                             kept; the next pod has the id            deleted when the pod is gone
//	recreated because the templates changed     kept, not used again, said               deleted when the pod is gone
//	lost node, eviction, kubectl delete pod     kept; the next pod has the id            deleted when the pod is gone
//	surge: replaced before it goes              kept, for the next new pod               deleted when the pod is gone
//	deletion of the workload                    the garbage collector (ownerReference)   the same
//
// An id is never given to a new pod while any pod has it, or a claim of it is on its way out. A changed template changes no
// claim that exists: a pod is moved onto new claims only together with another change of its own template (B091).
package claims
