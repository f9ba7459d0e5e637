package codexhome

import (
	"bytes"
	"slices"
)

// withContract tells a role what its results are held to.
func withContract(guidance, schema []byte) []byte {
	return slices.Concat(bytes.TrimRight(guidance, "\n"), []byte("\n\n"+
		"# Your result\n\n"+
		"The last message of your task is your result: one JSON value that meets the schema below, with no other word and no code fence around it.\n"+
		"It is checked. Where the schema has `commands`, each is looked up in the trace of this job, with its exit code;\n"+
		"where it has `artifacts` or `image_artifacts`, each file is hashed again.\n\n"+
		"```json\n"), bytes.TrimSpace(schema), []byte("\n```\n"))
}
