// Package trace reads the event log of an agent for those who look into its
// work: in bounded pages, without private reasoning, and without loss: what is
// too long for a page is read by itself, part by part.
package trace
