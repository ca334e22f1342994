package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"
)

// drain bounds how long the requests that run may go on after SIGTERM. The
// server ends as soon as none runs: nothing here helps a client that still sends
// to a pod that is about to be restarted.
const drain = 25 * time.Second

func serve(ready func() bool) error {
	port := os.Getenv("PORT")
	if port == "" {
		port = "8080"
	}
	ended := make(chan error, 1)
	server := &http.Server{Addr: ":" + port, Handler: handler(ready), ReadHeaderTimeout: 10 * time.Second}
	stop := asked()
	go func() { ended <- server.ListenAndServe() }()
	select {
	case err := <-ended:
		return err
	case <-stop:
	}
	ctx, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	return server.Shutdown(ctx)
}

func handler(ready func() bool) http.Handler {
	name, _ := os.Hostname()
	version := os.Getenv("VERSION")
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "%s %s\n", version, name)
	})
	mux.HandleFunc("/ready", func(w http.ResponseWriter, _ *http.Request) {
		if !ready() {
			http.Error(w, "not ready", http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("/env", func(w http.ResponseWriter, r *http.Request) {
		value, ok := os.LookupEnv(r.FormValue("name"))
		if !ok {
			http.Error(w, "not set", http.StatusNotFound)
			return
		}
		_, _ = io.WriteString(w, value)
	})
	mux.HandleFunc("GET /file", func(w http.ResponseWriter, r *http.Request) {
		data, err := os.ReadFile(r.URL.Query().Get("path"))
		answer(w, data, err)
	})
	mux.HandleFunc("PUT /file", func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		answer(w, nil, errors.Join(err, os.WriteFile(r.URL.Query().Get("path"), data, 0o644)))
	})
	mux.HandleFunc("/sleep", func(w http.ResponseWriter, r *http.Request) {
		ms, err := strconv.Atoi(r.FormValue("ms"))
		if err == nil {
			time.Sleep(time.Duration(ms) * time.Millisecond)
		}
		answer(w, nil, err)
	})
	return mux
}

func answer(w http.ResponseWriter, data []byte, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = w.Write(data)
}
