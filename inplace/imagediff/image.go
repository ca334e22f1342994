package imagediff

import "strings"

// Image is a reference taken apart: "registry:5000/team/app:v1@sha256:..." The parts that were left out are filled in
// as container runtimes do: docker.io, library, latest. A reference with a digest and no tag has no tag.
type Image struct {
	Registry string
	Path     string
	Tag      string
	Digest   string
}

const (
	defaultRegistry = "docker.io"
	legacyRegistry  = "index.docker.io"
	defaultPath     = "library/"
	defaultTag      = "latest"
)

// ParseImage takes a reference apart. It accepts what is not a valid reference too: the result then only serves to
// compare, and differs from everything it is not equal to.
func ParseImage(name string) Image {
	var i Image
	rest, digest, _ := strings.Cut(name, "@")
	i.Digest = digest
	// The last colon begins a tag only when no slash follows it: "registry:5000/app" has none (B027).
	if colon := strings.LastIndexByte(rest, ':'); colon > strings.LastIndexByte(rest, '/') {
		rest, i.Tag = rest[:colon], rest[colon+1:]
	}
	i.Registry, i.Path = splitRegistry(rest)
	if i.Tag == "" && i.Digest == "" {
		i.Tag = defaultTag
	}
	return i
}

func splitRegistry(name string) (registry, path string) {
	first, rest, found := strings.Cut(name, "/")
	if !found || !(strings.ContainsAny(first, ".:") || first == "localhost" || strings.ToLower(first) != first) {
		first, rest = defaultRegistry, name
	}
	if first == legacyRegistry {
		first = defaultRegistry
	}
	if first == defaultRegistry && !strings.Contains(rest, "/") {
		rest = defaultPath + rest
	}
	return first, rest
}

// String puts the reference together again, complete.
func (i Image) String() string {
	var b strings.Builder
	b.WriteString(i.Registry + "/" + i.Path)
	if i.Tag != "" {
		b.WriteString(":" + i.Tag)
	}
	if i.Digest != "" {
		b.WriteString("@" + i.Digest)
	}
	return b.String()
}

// SameImage reports whether two references name the same thing after normalisation. Where both have a digest the tag
// says nothing any more.
func SameImage(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	x, y := ParseImage(a), ParseImage(b)
	if x.Digest != "" && y.Digest != "" {
		x.Tag, y.Tag = "", ""
	}
	return x == y
}
