// Package imagediff compares two revisions of a raw pod template: either everything that changed can be changed in a
// running pod, or the answer is a refusal that names the fields which cannot.
//
// What can be changed in place: images of containers, and labels, annotations and finalizers of the template, which
// restart nothing. The comparison is of raw JSON in canonical form, so a field newer than this build forces a recreate
// instead of being overlooked.
package imagediff
