package clusters

import (
	"bufio"
	"bytes"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"unicode"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"
)

// ambiguous says where a file could be read in two ways, and what the parser takes without a word or refuses without the
// field: several documents, keys that are there twice, entries of one name.
func ambiguous(raw []byte) string {
	if documents(raw) > 1 {
		return "it has more than one document"
	}
	if _, err := yaml.YAMLToJSONStrict(raw); err != nil {
		return notConfig // the parser's own words quote the text
	}
	type entry struct {
		Name string `json:"name"`
	}
	var file struct {
		Clusters []entry `json:"clusters"`
		Users    []entry `json:"users"`
		Contexts []entry `json:"contexts"`
	}
	if err := yaml.Unmarshal(raw, &file); err != nil {
		return notConfig
	}
	for _, list := range []struct {
		field   string
		entries []entry
	}{{"clusters", file.Clusters}, {"users", file.Users}, {"contexts", file.Contexts}} {
		seen := map[string]bool{}
		for _, e := range list.entries {
			if seen[e.Name] {
				return fmt.Sprintf("%s[].name %q is there twice", list.field, short(e.Name))
			}
			seen[e.Name] = true
		}
	}
	return ""
}

// documents counts those that hold more than comments.
func documents(raw []byte) int {
	reader, count := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(raw))), 0
	for {
		doc, err := reader.Read()
		for line := range bytes.Lines(doc) {
			if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' && !bytes.Equal(line, []byte("---")) {
				count++
				break
			}
		}
		if err != nil { // the end of the file, at the latest
			return count
		}
	}
}

// oddFields names the field whose value no connection could be made with; the connection's own errors would quote it.
func oddFields(c *clientcmdapi.Cluster, u *clientcmdapi.AuthInfo, server *url.URL) string {
	switch port, err := strconv.ParseUint(server.Port(), 10, 16); {
	case server.Hostname() == "":
		return "clusters[].cluster.server has no host"
	case strings.ContainsFunc(server.Host, func(r rune) bool { return r > unicode.MaxASCII }):
		return "clusters[].cluster.server has a host with letters beyond ASCII: write it in punycode (xn--...)"
	case server.Port() != "" && (err != nil || port == 0):
		return "clusters[].cluster.server has a port that is none"
	case strings.ContainsFunc(c.TLSServerName, unprintable):
		return "clusters[].cluster.tls-server-name has characters that no name has"
	case strings.ContainsFunc(u.Token, unprintable):
		return "users[].user.token has characters that no token has (a line break?)"
	}
	return ""
}

func unprintable(r rune) bool { return r <= ' ' || r >= unicode.MaxASCII }
