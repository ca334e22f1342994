package check

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// root is where a PodTemplate has the pod template.
	root = "template"
	// maxCauses and maxText bound what is kept of a refusal.
	maxCauses = 5
	maxText   = 400
)

// Codes of answers; package net/http is not for packages that do no I/O.
const (
	codeBadRequest    = 400
	codeUnauthorized  = 401
	codeNotFound      = 404
	codeTimeout       = 408
	codeConflict      = 409
	codeTooLarge      = 413
	codeUnprocessable = 422
	codeTooMany       = 429
	codeServerError   = 500
)

// Reading is what a refusal says.
type Reading struct {
	Outcome Outcome
	Text    string
	// NoNamespace is true when the namespace is not there: another one can be asked in.
	NoNamespace bool
	// Unclear is true when the refusal does not say whether it means this template or PodTemplates as such. A bland
	// template at the same place tells: if it is taken, Outcome holds; otherwise it is OutcomeRefused.
	Unclear bool
}

// Read reads an API server's refusal of a PodTemplate; field is the Template's, for paths as the user wrote them.
func Read(status metav1.Status, field string) Reading {
	code := int(status.Code)
	text := cut(status.Message)
	switch {
	case status.Reason == metav1.StatusReasonAlreadyExists:
		return Reading{Outcome: OutcomeValid} // that is looked at last
	case code == codeNotFound && status.Details != nil && status.Details.Kind == "namespaces":
		return Reading{Outcome: OutcomeRefused, Text: text, NoNamespace: true}
	case code == codeUnprocessable:
		if causes := causesOf(status, field); len(causes) > 0 {
			return Reading{Outcome: OutcomeInvalid, Text: strings.Join(causes, "; ")}
		}
		return Reading{Outcome: OutcomeDenied, Text: where(field) + ": " + text, Unclear: true}
	case code == codeBadRequest, code == codeTooLarge:
		return Reading{Outcome: OutcomeInvalid, Text: where(field) + ": " + text, Unclear: true}
	case transient(code):
		return Reading{Outcome: OutcomeFailed, Text: "the API server does not answer the question"}
	default:
		return Reading{Outcome: OutcomeRefused, Text: text}
	}
}

// transient is true for codes of a server that may answer later; a credential that is refused is renewed by others.
func transient(code int) bool {
	return code == 0 || code >= codeServerError ||
		slices.Contains([]int{codeUnauthorized, codeTimeout, codeConflict, codeTooMany}, code)
}

// causesOf are the fields of the pod template that the status refuses.
func causesOf(status metav1.Status, field string) []string {
	if status.Details == nil {
		return nil
	}
	var out []string
	more := 0
	for _, c := range status.Details.Causes {
		rest, ok := strings.CutPrefix(c.Field, root)
		if !ok || (rest != "" && rest[0] != '.' && rest[0] != '[') {
			continue
		}
		if len(out) == maxCauses {
			more++
			continue
		}
		out = append(out, Path(field, strings.TrimPrefix(rest, "."))+": "+cut(c.Message))
	}
	if more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return out
}

func where(field string) string { return "spec.template." + field + ".spec.template" }

// Path is a field of a pod template as the user wrote it. The API server names a template's labels and annotations
// without the metadata that they are in.
func Path(field, rest string) string {
	for _, of := range []string{"labels", "annotations"} {
		if rest == of || strings.HasPrefix(rest, of+"[") || strings.HasPrefix(rest, of+".") {
			rest = "metadata." + rest
		}
	}
	if rest == "" {
		return where(field)
	}
	return where(field) + "." + rest
}

// cut bounds a text.
func cut(s string) string {
	if runes := []rune(s); len(runes) > maxText {
		return string(runes[:maxText]) + "..."
	}
	return s
}

// problemOf is what no workload of any kind takes, and a PodTemplate does: it is said without asking anybody.
func problemOf(t *Template) string {
	var pod struct {
		Spec *struct {
			RestartPolicy any `json:"restartPolicy"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(t.Pod, &pod); err != nil {
		return Path(t.Field, "") + ": " + cut(err.Error())
	}
	if pod.Spec == nil {
		return Path(t.Field, "spec") + ": Required value"
	}
	if policy := pod.Spec.RestartPolicy; policy != nil && policy != "" && policy != "Always" {
		return Path(t.Field, "spec.restartPolicy") + fmt.Sprintf(": Unsupported value: %q: a workload's pods are restarted Always", fmt.Sprint(policy))
	}
	return ""
}
