package lab

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
)

// auditPolicy records every request once, without bodies but for what accounts
// of an installation send of workloads. Only the reads of Kubernetes' own
// components are left out: they are many and nobody counts them.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  verbs: [get, list, watch]
  users: ["system:apiserver", "system:kube-controller-manager", "system:kube-scheduler", "system:kwok", "lab"]
- level: None
  verbs: [get, list, watch]
  userGroups: ["system:serviceaccounts:kube-system"]
- level: Metadata
  userGroups: ["system:serviceaccounts:kube-system"]
- level: Request
  verbs: [create, update, patch]
  userGroups: ["system:serviceaccounts"]
  resources:
  - {group: apps, resources: [deployments, statefulsets]}
  - {group: apps.kruise.io, resources: [clonesets, statefulsets]}
- level: Metadata
`

// AuditEvent is one request, as the API server saw it.
type AuditEvent struct {
	Stage      string `json:"stage"`
	RequestURI string `json:"requestURI"`
	Verb       string `json:"verb"`
	User       struct {
		Username string   `json:"username"`
		Groups   []string `json:"groups"`
	} `json:"user"`
	UserAgent      string         `json:"userAgent"`
	ObjectRef      AuditObject    `json:"objectRef"`
	ResponseStatus AuditResponse  `json:"responseStatus"`
	Received       time.Time      `json:"requestReceivedTimestamp"`
	StageTime      time.Time      `json:"stageTimestamp"`
	Annotations    map[string]any `json:"annotations"`
	// RequestObject is what was sent, for writes of Deployments, StatefulSets and
	// CloneSets by a service account; nil for all else.
	RequestObject json.RawMessage `json:"requestObject"`
}

// AuditObject is what a request was about.
type AuditObject struct {
	Resource        string `json:"resource"`
	Subresource     string `json:"subresource"`
	Namespace       string `json:"namespace"`
	Name            string `json:"name"`
	UID             string `json:"uid"`
	APIGroup        string `json:"apiGroup"`
	APIVersion      string `json:"apiVersion"`
	ResourceVersion string `json:"resourceVersion"`
}

// AuditResponse is how a request was answered.
type AuditResponse struct {
	Code    int    `json:"code"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Resource is the resource with its subresource, as in pods/status.
func (e AuditEvent) Resource() string {
	if e.ObjectRef.Subresource == "" {
		return e.ObjectRef.Resource
	}
	return e.ObjectRef.Resource + "/" + e.ObjectRef.Subresource
}

// Write says whether the request was one that may change something: dry runs may not.
func (e AuditEvent) Write() bool {
	return !slices.Contains([]string{"get", "list", "watch", ""}, e.Verb) && !e.DryRun()
}

// DryRun says whether the request was to change nothing.
func (e AuditEvent) DryRun() bool {
	u, err := url.Parse(e.RequestURI)
	return err == nil && u.Query().Get("dryRun") != ""
}

// AuditFilter picks events.
type AuditFilter func(AuditEvent) bool

// Writes picks the requests that may change something.
func Writes(e AuditEvent) bool { return e.Write() }

// ByUser picks the requests of one user.
func ByUser(name string) AuditFilter {
	return func(e AuditEvent) bool { return e.User.Username == name }
}

// ByUserAgent picks the requests whose user agent begins so.
func ByUserAgent(prefix string) AuditFilter {
	return func(e AuditEvent) bool { return strings.HasPrefix(e.UserAgent, prefix) }
}

// On picks the requests on these resources; a subresource counts as its own, as
// in "pods/status".
func On(resources ...string) AuditFilter {
	return func(e AuditEvent) bool { return slices.Contains(resources, e.Resource()) }
}

// Mark is a place in the audit log.
type Mark int64

// AuditLog is the path of the audit log; the file is there when the fleet was
// started with Audit.
func (c *Cluster) AuditLog() string { return c.path("audit.log") }

// Mark returns the present end of the audit log.
func (c *Cluster) Mark() (Mark, error) {
	info, err := os.Stat(c.AuditLog())
	if err != nil {
		return 0, fmt.Errorf("audit log of %s: %w", c.name, err)
	}
	return Mark(info.Size()), nil
}

// Since returns the requests that were answered after the mark and that all the
// filters pick. A request is one event: a watch when it was answered first, every
// other one when it was complete.
func (c *Cluster) Since(mark Mark, filters ...AuditFilter) ([]AuditEvent, error) {
	f, err := os.Open(c.AuditLog())
	if err != nil {
		return nil, fmt.Errorf("audit log of %s: %w", c.name, err)
	}
	defer f.Close()
	if _, err := f.Seek(int64(mark), io.SeekStart); err != nil {
		return nil, err
	}
	events, err := readAudit(f, filters)
	if err != nil {
		return nil, fmt.Errorf("audit log of %s: %w", c.name, err)
	}
	return events, nil
}

// AuditEvents returns all requests since the cluster's start that the filters pick.
func (c *Cluster) AuditEvents(filters ...AuditFilter) ([]AuditEvent, error) {
	return c.Since(0, filters...)
}

func readAudit(r io.Reader, filters []AuditFilter) ([]AuditEvent, error) {
	var events []AuditEvent
	lines := bufio.NewReaderSize(r, 1<<16)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			// Half a line is an event that is being written.
			return events, nil
		}
		if err != nil {
			return nil, err
		}
		var e AuditEvent
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("reading an event: %w", err)
		}
		if counts(e) && !slices.ContainsFunc(filters, func(keep AuditFilter) bool { return !keep(e) }) {
			events = append(events, e)
		}
	}
}

// counts makes one event of each request: long-running ones have two.
func counts(e AuditEvent) bool {
	if e.Verb == "watch" {
		return e.Stage == "ResponseStarted"
	}
	return e.Stage == "ResponseComplete" || e.Stage == "Panic"
}
