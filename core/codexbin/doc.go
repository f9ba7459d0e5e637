// Package codexbin finds the Codex to use and decides whether it may be used.
//
// What is found is the native binary, never a wrapper script: the process that
// is started must be the one whose identity and digest are recorded. What is
// admitted is a binary whose experimental protocol was reviewed, or one that
// still has every method and field that we use in the shape that we use.
package codexbin
