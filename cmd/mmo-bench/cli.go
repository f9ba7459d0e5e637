package main

import (
	"context"
	"fmt"
	"os/exec"
	"time"
)

// commandTimeout bounds one short command.
const commandTimeout = 30 * time.Second

// measureCLI compares `status` of a session that has ended, which reads the
// store and the evidence, with `version`, which reads nothing, and `version`
// with a process that does nothing at all.
func measureCLI(ctx context.Context, env bench, n int) ([]figure, error) {
	if found, err := sessions(env); err != nil {
		return nil, err
	} else if len(found) == 0 {
		if _, _, err := runTeam(ctx, env); err != nil {
			return nil, err
		}
	}
	start := figure{what: "CLI version", floor: "/bin/true", unit: "ms", at: 0.5}
	list := figure{what: "CLI status", floor: "CLI version", unit: "ms", at: 0.5, atMost: 1.5}
	for range n {
		for _, one := range []struct {
			into *[]float64
			argv []string
		}{
			{&start.floors, []string{"/bin/true"}},
			{&start.values, []string{env.binary, "version"}},
			{&list.values, []string{env.binary, "status"}},
		} {
			took, err := timed(ctx, env, one.argv...)
			if err != nil {
				return nil, err
			}
			*one.into = append(*one.into, milliseconds(took))
		}
	}
	list.floors = start.values
	return []figure{start, list}, nil
}

// timed runs a command to its end.
func timed(ctx context.Context, env bench, argv ...string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.Dir = env.environ(), env.workspace()
	start := time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(start)
	if err != nil {
		return 0, fmt.Errorf("%v: %w\n%s", argv, err, out)
	}
	return took, nil
}
