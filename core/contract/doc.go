// Package contract holds results to what was agreed: a JSON Schema (2020-12)
// that a result must meet, and evidence for what it claims. It reads no file and
// knows no job; the invariant is that a result is always judged by the whole
// schema, whatever part of it an engine was given to generate by.
package contract
