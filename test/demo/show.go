package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/term"

	appsv1alpha1 "github.com/underway-dev/underway/apis/apps/v1alpha1"
	"github.com/underway-dev/underway/hub/screen"
)

// screenOf shows the live tree: redrawn on a terminal, one line per change elsewhere.
type screenOf struct {
	demo   *demo
	fd     int
	canvas screen.Canvas
	drawn  string
	before *screen.Tree
}

func newScreen(d *demo) *screenOf {
	s := &screenOf{demo: d, fd: -1}
	if f, ok := d.out.(*os.File); ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb" {
		s.fd = int(f.Fd())
	}
	return s
}

func (s *screenOf) draw(ud *appsv1alpha1.UnitedDeployment) {
	now := time.Now()
	tree := screen.TreeOf(ud, nil, now)
	if s.fd < 0 {
		for _, line := range screen.Changes(s.before, tree, now) {
			s.demo.say("%s", line)
		}
		s.before = &tree
		return
	}
	width, height, err := term.GetSize(s.fd)
	if err != nil {
		return
	}
	_, unwanted := os.LookupEnv("NO_COLOR")
	text := tree.Render(screen.Style{Width: width, Color: !unwanted})
	if text != s.drawn {
		_, _ = fmt.Fprint(s.demo.out, s.canvas.Draw(text, width, height))
		s.drawn = text
	}
}

// settle leaves what is drawn where it is; the next tree is drawn below.
func (s *screenOf) settle() { s.canvas, s.drawn = screen.Canvas{}, "" }

func (s *screenOf) say(format string, args ...any) {
	s.settle()
	s.demo.say("\n"+format, args...)
}

// relative shortens a path below root.
func relative(root, path string) string {
	if short, err := filepath.Rel(root, path); err == nil {
		return short
	}
	return path
}
