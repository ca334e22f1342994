package lab

// Repositories of the lab's images. No registry serves them: every real node has
// them from its start, and pods name them with imagePullPolicy Never.
//
//	app:v1 app:v2 app:v3   a server that answers with its version
//	app:v2-again           the image of app:v2, digest and all, by another tag
//	app:crash              exits with 1 after 100 ms
//	app:never-ready        runs, and /ready answers 503
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
// is not set) and ends within 100 ms of a SIGTERM, when the requests that run
// are answered. It serves
//
//	/              "<version> <pod>": the version is app:v1's "v1" and so on, the
//	               pod the hostname
//	/ready         200 when ready, for readiness probes
//	/env?name=X    the environment variable X
//	/file?path=P   GET reads, PUT writes a file
//	/sleep?ms=N    answers after N milliseconds
//
// and as a command (see [RealNode.Exec]) it knows "/app cat FILE",
// "/app write FILE TEXT" and "/app env NAME".
func Image(name, tag string) string { return "underway.test/" + name + ":" + tag }
