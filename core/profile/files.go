package profile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"

	"github.com/codex-mmo/codex-mmo/core"
)

// maxFile is the largest file of a profile that is read, in bytes.
const maxFile = 1 << 20

// profileFile is profile.toml.
type profileFile struct {
	SchemaVersion int    `toml:"schema_version"`
	ID            string `toml:"id"`
	Version       string `toml:"version"`
	Description   string `toml:"description"`
	RootAgent     string `toml:"root_agent"`
	Coordination  struct {
		MaxDepth         int `toml:"max_depth"`
		MaxActiveAgents  int `toml:"max_active_agents"`
		MaxActiveWriters int `toml:"max_active_writers"`
	} `toml:"coordination"`
	Agents map[string]agentFile `toml:"agents"`
}

type agentFile struct {
	Model               string   `toml:"model"`
	Description         string   `toml:"description"`
	ReasoningEffort     string   `toml:"reasoning_effort"`
	Permissions         string   `toml:"permissions"`
	ApprovalPolicy      string   `toml:"approval_policy"`
	ExecutionMode       string   `toml:"execution_mode"`
	TaskKinds           []string `toml:"task_kinds"`
	CanSpawn            []string `toml:"can_spawn"`
	Backends            []string `toml:"backends"`
	MaxActive           int      `toml:"max_active"`
	MaxRecoveryAttempts *int     `toml:"max_recovery_attempts"`
	Guidance            string   `toml:"guidance"`
}

// catalogFile is catalog.toml.
type catalogFile struct {
	SchemaVersion int                  `toml:"schema_version"`
	Routes        map[string]routeFile `toml:"routes"`
	Models        map[string]modelFile `toml:"models"`
}

type routeFile struct {
	Name         string `toml:"name"`
	Driver       string `toml:"driver"`
	WireProtocol string `toml:"wire_protocol"`
	BillingMode  string `toml:"billing_mode"`
	Script       string `toml:"script"`
}

type modelFile struct {
	Route            string   `toml:"route"`
	UpstreamID       string   `toml:"upstream_id"`
	Maker            string   `toml:"maker"`
	Modalities       []string `toml:"modalities"`
	ReasoningLevels  []string `toml:"reasoning_levels"`
	DefaultReasoning string   `toml:"default_reasoning"`
	ContextWindow    int      `toml:"context_window"`
	BaseInstructions string   `toml:"base_instructions"`
}

// folder is a profile's folder: its files, and how to call it in messages.
type folder struct {
	fsys  fs.FS
	name  string
	close func() error
}

// open finds a profile by id or by the path of its folder. A path is told by
// its separator. Links out of the folder are not followed.
func open(in *CompileInput) (*folder, error) {
	if strings.ContainsRune(in.Name, filepath.Separator) || in.Name == "." || in.Name == ".." {
		return openFolder(in.Name)
	}
	if !core.ValidID(in.Name) {
		return nil, core.Errorf(core.KindValue, "%q can't be the id of a profile", in.Name)
	}
	own := filepath.Join(in.ConfigDir, "profiles", in.Name)
	if _, err := os.Lstat(own); in.ConfigDir != "" && !errors.Is(err, fs.ErrNotExist) {
		return openFolder(own)
	}
	if in.Bundled != nil {
		if _, err := fs.Stat(in.Bundled, in.Name+"/profile.toml"); err == nil {
			sub, err := fs.Sub(in.Bundled, in.Name)
			return &folder{sub, in.Name, func() error { return nil }}, err
		}
	}
	return nil, core.Errorf(core.KindNotFound, "no profile %q among the bundled ones or in %s", in.Name, filepath.Dir(own))
}

func openFolder(path string) (*folder, error) {
	root, err := os.OpenRoot(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, core.Errorf(core.KindNotFound, "no profile folder %s: %w", path, err)
	}
	if err != nil {
		return nil, core.Errorf(core.KindOS, "opening profile folder %s: %w", path, err)
	}
	return &folder{root.FS(), path, root.Close}, nil
}

// read returns a file of the profile; only regular files of sensible size.
func (f *folder) read(name string) ([]byte, error) {
	where := f.name + "/" + name
	if !fs.ValidPath(name) {
		return nil, core.Errorf(core.KindValue, "%s: a file of a profile is named by a plain path inside its folder", where)
	}
	info, err := fs.Stat(f.fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, core.Errorf(core.KindNotFound, "profile file %s is missing: %w", where, err)
	}
	if err != nil {
		return nil, core.Errorf(core.KindOS, "profile file %s: %w", where, err)
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return nil, core.Errorf(core.KindValue, "profile file %s must be a regular file of at most %d bytes", where, maxFile)
	}
	file, err := f.fsys.Open(name)
	if err != nil {
		return nil, core.Errorf(core.KindOS, "profile file %s: %w", where, err)
	}
	defer func() { _ = file.Close() }()
	data, err := io.ReadAll(io.LimitReader(file, maxFile))
	if err != nil {
		return nil, core.Errorf(core.KindOS, "profile file %s: %w", where, err)
	}
	if !utf8.Valid(data) {
		return nil, core.Errorf(core.KindValue, "profile file %s is not UTF-8 text", where)
	}
	return data, nil
}

// decode reads a TOML file of the profile into v.
func (f *folder) decode(name string, v any) error {
	data, err := f.read(name)
	if err != nil {
		return err
	}
	decoder := toml.NewDecoder(bytes.NewReader(data)).DisallowUnknownFields()
	err = decoder.Decode(v)
	var unknown *toml.StrictMissingError
	var invalid *toml.DecodeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &unknown) && len(unknown.Errors) > 0:
		var all []string
		for i := range unknown.Errors {
			line, _ := unknown.Errors[i].Position()
			all = append(all, fmt.Sprintf("%s/%s:%d: unknown key %q", f.name, name, line, strings.Join(unknown.Errors[i].Key(), ".")))
		}
		return core.Errorf(core.KindValue, "%s", strings.Join(all, "; "))
	case errors.As(err, &invalid):
		line, _ := invalid.Position()
		key := ""
		if len(invalid.Key()) > 0 {
			key = fmt.Sprintf(" key %q:", strings.Join(invalid.Key(), "."))
		}
		return core.Errorf(core.KindValue, "%s/%s:%d:%s %s", f.name, name, line, key, strings.TrimPrefix(invalid.Error(), "toml: "))
	}
	return core.Errorf(core.KindValue, "%s/%s: %w", f.name, name, err)
}
