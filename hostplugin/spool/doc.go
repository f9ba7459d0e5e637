// Package spool keeps the events of one agent on disk until a supervisor has
// made them its own.
//
// A spool is a private folder of segments, files of JSON lines that are named
// by their generation and the number of their first row:
//
//	lock
//	00000000000000000003-00000000000000000001.jsonl
//	{"gen":3,"seq":1,"at":1764540000000000000,"direction":"received","message":{…}}
//
// Rows are numbered from 1 within a generation. A row is in the file before
// anybody reads it, so what a reader has seen survives the death of this
// process. One process holds a spool at a time.
package spool
