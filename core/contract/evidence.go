package contract

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Command is a command that an agent really ran.
type Command struct {
	// Forms are the ways in which its text is known: as it was typed, and
	// without the shell around it.
	Forms    []string
	ExitCode *int // nil: it did not end, or nobody said how
}

// Artifact is a file that a result declares, as it is.
type Artifact struct {
	RelativePath string `json:"relative_path"` // below the agent's folder
	SHA256       string `json:"sha256"`        // lower-case hexadecimal
	Size         int64  `json:"size"`          // bytes
	MediaType    string `json:"media_type"`    // by its first bytes
}

// Evidence is what claims are compared with.
type Evidence struct {
	// Commands lists what the agent ran, oldest first.
	Commands func() ([]Command, error)
	// Artifact reads a file below the agent's folder.
	Artifact func(relative string) (*Artifact, error)
	// Literal are members that the result must hold as they are here, by name;
	// nil for none.
	Literal map[string]string
}

// Correlate compares what the result claims with the evidence: its "commands",
// "artifacts" and "image_artifacts", if it has them in the known shape, and the
// members that it must hold. It returns the errors, one line each, and the
// identities of the declared files when all of them are right.
func (v *Value) Correlate(e Evidence) ([]Artifact, []string) {
	result, _ := v.doc.(map[string]any)
	var errs []string
	for _, name := range slices.Sorted(maps.Keys(e.Literal)) {
		want := e.Literal[name]
		if got, _ := result[name].(string); got != want {
			errs = append(errs, fmt.Sprintf("/%s: is %s, the task's is %q", name, quoted(result[name]), want))
		}
	}
	errs = append(errs, commands(result, e)...)
	artifacts, wrong := artifacts(result, e)
	errs = append(errs, wrong...)
	return artifacts, bounded(errs)
}

// quoted shows a value of a result, bounded.
func quoted(v any) string {
	switch v := v.(type) {
	case nil:
		return "absent"
	case string:
		if len(v) > 200 {
			v = strings.ToValidUTF8(v[:200], "") + "…"
		}
		return strconv.Quote(v)
	}
	return fmt.Sprintf("%.200v", v)
}

// entries returns the objects of a member that is an array.
func entries(result map[string]any, name string) []map[string]any {
	list, _ := result[name].([]any)
	var out []map[string]any
	for _, v := range list {
		m, _ := v.(map[string]any)
		out = append(out, m)
	}
	return out
}

func commands(result map[string]any, e Evidence) (errs []string) {
	declared := entries(result, "commands")
	if len(declared) == 0 || e.Commands == nil {
		return nil
	}
	ran, err := e.Commands()
	if err != nil {
		return []string{"/commands: the trace can't be read: " + err.Error()}
	}
	for i, d := range declared {
		text, ok := d["command"].(string)
		if !ok || d["exit_code"] == nil {
			continue // of another shape: the schema decides
		}
		if wrong := denies(ran, strings.TrimSpace(text), fmt.Sprint(d["exit_code"])); wrong != "" {
			errs = append(errs, fmt.Sprintf("/commands/%d: %s", i, wrong))
		}
	}
	return errs
}

// denies says how the trace denies a claim, or nothing. A command is the one
// that was run if its text is the beginning of what was typed; of several runs
// any may have had that end.
func denies(ran []Command, text, code string) string {
	found := ""
	for _, c := range ran {
		if text == "" || !hasForm(c, text) {
			continue
		}
		got := "none"
		if c.ExitCode != nil {
			got = strconv.Itoa(*c.ExitCode)
		}
		if got == code {
			return ""
		}
		found = got
	}
	if found == "" {
		return fmt.Sprintf("the command %s is absent from the trace", quoted(text))
	}
	return fmt.Sprintf("exit_code of %s is %s in the trace, the result says %s", quoted(text), found, code)
}

func hasForm(c Command, text string) bool {
	for _, form := range c.Forms {
		if strings.HasPrefix(form, text) {
			return true
		}
	}
	return false
}

func artifacts(result map[string]any, e Evidence) ([]Artifact, []string) {
	if e.Artifact == nil {
		return nil, nil
	}
	var list []Artifact
	var errs []string
	for _, member := range []string{"artifacts", "image_artifacts"} {
		for i, d := range entries(result, member) {
			path, ok := d["relative_path"].(string)
			sum, ok2 := d["sha256"].(string)
			if !ok || !ok2 {
				continue // of another shape: the schema decides
			}
			at := fmt.Sprintf("/%s/%d: %s", member, i, quoted(path))
			found, err := e.Artifact(path)
			switch {
			case err != nil:
				errs = append(errs, at+" "+err.Error())
			case !strings.EqualFold(found.SHA256, sum):
				errs = append(errs, fmt.Sprintf("%s hash does not match: the file has %s, the result says %s", at, found.SHA256, quoted(sum)))
			case member == "image_artifacts" && !strings.HasPrefix(found.MediaType, "image/"):
				errs = append(errs, fmt.Sprintf("%s is no image: its media type is %s", at, found.MediaType))
			default:
				list = append(list, *found)
			}
		}
	}
	if len(errs) > 0 {
		return nil, errs
	}
	return list, nil
}
