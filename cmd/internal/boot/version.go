package boot

import (
	"runtime/debug"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// version is set by the linker: -X github.com/underway-dev/underway/cmd/internal/boot.version=v0.1.0.
var version string

// Version is the release this binary was built as: what the linker was told, else the module's version, else the
// revision of the working tree, else "devel".
func Version() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return "devel-" + s.Value[:12]
		}
	}
	return "devel"
}

// LabelValue is a version as the value of a label can hold it: "+dirty" becomes "_dirty".
func LabelValue(version string) string {
	const end = ".-_"
	value := strings.Map(func(r rune) rune {
		if r == '.' || r == '-' || r == '_' || ('0' <= r && r <= '9') || ('a' <= r && r <= 'z') || ('A' <= r && r <= 'Z') {
			return r
		}
		return '_'
	}, version)
	return strings.Trim(value[:min(len(value), validation.LabelValueMaxLength)], end)
}
