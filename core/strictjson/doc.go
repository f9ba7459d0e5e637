// Package strictjson reads and writes JSON without forgiveness.
//
// Everything that crosses a border of ours as JSON (frames of a model's tool
// calls, requests over the control socket, records on disk) is hostile input.
// The standard library folds the case of keys, lets the last of two equal keys
// win, replaces broken text by U+FFFD and ignores what it does not know; two
// readers of one document may then see two different documents. This package
// refuses all of that, so that what was checked is what is used.
//
// It is the only package that imports the experimental JSON module.
package strictjson
