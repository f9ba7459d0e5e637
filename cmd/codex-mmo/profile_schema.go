package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/profile"
)

// schemaOf says which files each format is that of.
var schemaOf = map[string]string{
	"profile":  "profile.toml of a profile",
	"catalog":  "catalog.toml of a profile, catalog.d/*.toml of your configuration",
	"tool-mcp": "tool-mcp.d/*.toml of your configuration",
	"settings": "settings.toml of your configuration",
}

func (a *app) profileSchemaCmd() *cobra.Command {
	dir := ""
	cmd := &cobra.Command{
		Use:   "schema [NAME]",
		Short: "Print the JSON Schemas of the files, for completion in your editor",
		Long: "schema prints the JSON Schema of a file format; without a NAME it lists them. An editor with Taplo (Even\n" +
			"Better TOML) completes and checks a file whose first line is\n\n" +
			"  #:schema ./profile.schema.json",
		Example: "  codex-mmo profile schema profile > profile.schema.json\n" +
			"  codex-mmo profile schema --write ~/.config/codex-mmo/schemas",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("`codex-mmo profile schema` takes one NAME or none, got %d", len(args))
			}
			if len(args) == 1 && !slices.Contains(profile.SchemaNames, args[0]) {
				return usagef("there is no schema %q: choose one of %s", args[0], strings.Join(profile.SchemaNames, ", "))
			}
			return nil
		},
		ValidArgs: profile.SchemaNames,
		RunE: func(_ *cobra.Command, args []string) error {
			names := args
			if len(names) == 0 {
				names = profile.SchemaNames
			}
			switch {
			case dir != "":
				return a.writeSchemas(dir, names)
			case len(args) == 0:
				return a.listSchemas()
			}
			data, err := profile.Schema(args[0])
			if err != nil {
				return err
			}
			_, err = a.out.Write(data)
			return err
		},
	}
	cmd.Flags().StringVar(&dir, "write", "", "write them as NAME.schema.json into this folder")
	return cmd
}

// listSchemas names the formats; for scripts it prints all schemas.
func (a *app) listSchemas() error {
	all := map[string]json.RawMessage{}
	var rows [][]string
	for _, name := range profile.SchemaNames {
		data, err := profile.Schema(name)
		if err != nil {
			return err
		}
		all[name], rows = data, append(rows, []string{name, schemaOf[name]})
	}
	if a.json {
		return a.printJSON(map[string]any{"schemas": all})
	}
	a.table([]string{"NAME", "FILES"}, rows)
	return nil
}

// writeSchemas writes the named schemas into a folder, and prints the paths.
func (a *app) writeSchemas(dir string, names []string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return core.Errorf(core.KindOS, "making the folder for the schemas: %w", err)
	}
	paths := []string{}
	for _, name := range names {
		data, err := profile.Schema(name)
		if err != nil {
			return err
		}
		path := filepath.Join(dir, name+".schema.json")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			return core.Errorf(core.KindOS, "writing a schema: %w", err)
		}
		paths = append(paths, path)
	}
	if a.json {
		return a.printJSON(map[string]any{"files": paths})
	}
	for _, path := range paths {
		a.printf("%s\n", path)
	}
	return nil
}
