package lab

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
)

// Names of the lab's images. No registry serves them: every real node has them
// from its start, and pods name them with imagePullPolicy Never.
//
//	app:v1 app:v2 app:v3   a server that answers with its version
//	app:v2-again           the image of app:v2, digest and all, by another tag
//	app:crash              exits with 1 after 100 ms
//	app:never-ready        serves, but /ready answers 503
//	app:slow-start         /ready answers 503 for the first 3 s
//	side:v1 side:v2        runs until SIGTERM: for native sidecars
//	init:v1 init:v2        exits with 0: for init containers
const (
	AppImage  = "app"
	SideImage = "side"
	InitImage = "init"
)

// Image is the full name of one of the lab's images, underway.test/<name>:<tag>.
//
// The server listens on the port of the environment variable PORT (8080 when it
// is not set). On SIGTERM it accepts no more, answers the requests that run, and
// exits with 0 at once; it does nothing for those who still send. It serves
//
//	/              "<version> <pod>": the tag (v2 for v2-again), the hostname
//	/ready         200 when ready, for readiness probes
//	/env?name=X    the environment variable X; 404 when it is not set
//	/file?path=P   GET reads a file, PUT writes it
//	/sleep?ms=N    answers after N milliseconds
//
// and all of these images have, for [RealNode.Exec], the commands
// "/app cat FILE", "/app write FILE TEXT" and "/app env NAME".
func Image(name, tag string) string { return "underway.test/" + name + ":" + tag }

// pauseImage holds the namespaces of a pod.
const pauseImage = "underway.test/pause:v1"

// image is one image: the program of test/lab/binaries/app with an environment.
type image struct{ name, version, mode string }

func images() []image {
	return []image{
		{Image(AppImage, "v1"), "v1", ""},
		{Image(AppImage, "v2"), "v2", ""},
		{Image(AppImage, "v2-again"), "v2", ""},
		{Image(AppImage, "v3"), "v3", ""},
		{Image(AppImage, "crash"), "crash", "crash"},
		{Image(AppImage, "never-ready"), "never-ready", "never-ready"},
		{Image(AppImage, "slow-start"), "slow-start", "slow-start"},
		{Image(SideImage, "v1"), "v1", "run"},
		{Image(SideImage, "v2"), "v2", "run"},
		{Image(InitImage, "v1"), "v1", "exit-0"},
		{Image(InitImage, "v2"), "v2", "exit-0"},
		{pauseImage, "pause", "run"},
	}
}

// The parts of an OCI image layout (v1.1 of the specification) that are used.
type (
	ociDescriptor struct {
		MediaType   string            `json:"mediaType"`
		Digest      string            `json:"digest"`
		Size        int               `json:"size"`
		Annotations map[string]string `json:"annotations,omitempty"`
	}
	ociManifest struct {
		SchemaVersion int             `json:"schemaVersion"`
		MediaType     string          `json:"mediaType"`
		Config        ociDescriptor   `json:"config"`
		Layers        []ociDescriptor `json:"layers"`
	}
	ociIndex struct {
		SchemaVersion int             `json:"schemaVersion"`
		MediaType     string          `json:"mediaType"`
		Manifests     []ociDescriptor `json:"manifests"`
	}
	ociConfig struct {
		Architecture string     `json:"architecture"`
		OS           string     `json:"os"`
		Config       ociRuntime `json:"config"`
		RootFS       ociRootFS  `json:"rootfs"`
	}
	ociRuntime struct {
		Env        []string `json:"Env"`
		Entrypoint []string `json:"Entrypoint"`
		WorkingDir string   `json:"WorkingDir"`
	}
	ociRootFS struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	}
)

const (
	ociPrefix       = "application/vnd.oci.image."
	ociNameOfImport = "io.containerd.image.name"
)

// layout collects the files of an image layout.
type layout struct {
	names []string
	files map[string][]byte
}

func (l *layout) add(name string, data []byte) {
	if _, ok := l.files[name]; !ok {
		l.names = append(l.names, name)
	}
	l.files[name] = data
}

func (l *layout) blob(mediaType string, data []byte) ociDescriptor {
	sum := sha256.Sum256(data)
	digest := hex.EncodeToString(sum[:])
	l.add("blobs/sha256/"+digest, data)
	return ociDescriptor{MediaType: ociPrefix + mediaType, Digest: "sha256:" + digest, Size: len(data)}
}

func (l *layout) json(mediaType string, v any) (ociDescriptor, error) {
	data, err := json.Marshal(v)
	return l.blob(mediaType, data), err
}

// writeImages writes all images of the lab into one archive. They have one layer
// in common, with one file: the program. What differs is the environment.
func writeImages(path, program string) error {
	binary, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	layer, err := archive([]string{"app"}, map[string][]byte{"app": binary})
	if err != nil {
		return err
	}
	l := &layout{files: map[string][]byte{}}
	layerBlob := l.blob("layer.v1.tar", layer)
	index := ociIndex{SchemaVersion: 2, MediaType: ociPrefix + "index.v1+json"}
	for _, i := range images() {
		manifest, err := l.image(i, layerBlob)
		if err != nil {
			return fmt.Errorf("image %s: %w", i.name, err)
		}
		index.Manifests = append(index.Manifests, manifest)
	}
	data, err := json.Marshal(index)
	if err != nil {
		return err
	}
	l.add("index.json", data)
	l.add("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`))
	whole, err := archive(l.names, l.files)
	if err != nil {
		return err
	}
	return os.WriteFile(path, whole, 0o644)
}

func (l *layout) image(i image, layer ociDescriptor) (ociDescriptor, error) {
	env := []string{"VERSION=" + i.version}
	if i.mode != "" {
		env = append(env, "MODE="+i.mode)
	}
	config, err := l.json("config.v1+json", ociConfig{
		Architecture: runtime.GOARCH, OS: "linux",
		Config: ociRuntime{Env: env, Entrypoint: []string{"/app"}, WorkingDir: "/"},
		RootFS: ociRootFS{Type: "layers", DiffIDs: []string{layer.Digest}},
	})
	if err != nil {
		return ociDescriptor{}, err
	}
	manifest, err := l.json("manifest.v1+json", ociManifest{
		SchemaVersion: 2, MediaType: ociPrefix + "manifest.v1+json",
		Config: config, Layers: []ociDescriptor{layer},
	})
	manifest.Annotations = map[string]string{ociNameOfImport: i.name}
	return manifest, err
}

// archive is a tar of files, the same bytes for the same files.
func archive(names []string, files map[string][]byte) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, name := range names {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: int64(len(files[name]))}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(files[name]); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}
