package seeds_test

import (
	"testing"

	"github.com/underway-dev/underway/test/seeds"
)

func TestRange(t *testing.T) {
	for name, tc := range map[string]struct {
		env      map[string]string
		from, to uint64
	}{
		"usual":               {nil, 0, 7},
		"as many as asked":    {map[string]string{"UNDERWAY_SEEDS": "20"}, 0, 20},
		"none":                {map[string]string{"UNDERWAY_SEEDS": "0"}, 0, 0},
		"a slice":             {map[string]string{"UNDERWAY_SEEDS": "20", "UNDERWAY_FROM": "100"}, 100, 120},
		"as usual from there": {map[string]string{"UNDERWAY_FROM": "100"}, 100, 107},
		"one, whatever else":  {map[string]string{"UNDERWAY_SEED": "5", "UNDERWAY_SEEDS": "20", "UNDERWAY_FROM": "100"}, 5, 6},
		"the very first":      {map[string]string{"UNDERWAY_SEED": "0"}, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			for _, variable := range []string{"UNDERWAY_SEED", "UNDERWAY_SEEDS", "UNDERWAY_FROM"} {
				t.Setenv(variable, tc.env[variable])
			}
			if from, to := seeds.Range(t, 7); from != tc.from || to != tc.to {
				t.Errorf("from %d to %d, want %d to %d", from, to, tc.from, tc.to)
			}
		})
	}
}
