package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// figure is one thing measured beside the least that it could cost.
type figure struct {
	what    string
	floor   string // what the floor is
	unit    string
	at      float64 // quantile that is shown, 0..1
	values  []float64
	floors  []float64
	atMost  float64 // goal: value / floor at the quantile; 0: none
	comment string  // shown below the table; may be empty
}

// quantile returns the q-th quantile of values by linear interpolation, or 0
// without values.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	place := q * float64(len(sorted)-1)
	below := int(place)
	if below+1 == len(sorted) {
		return sorted[below]
	}
	return sorted[below] + (place-float64(below))*(sorted[below+1]-sorted[below])
}

// ratio is the figure over its floor; ok is false when one of them is missing.
func (f figure) ratio() (ratio float64, ok bool) {
	floor := quantile(f.floors, f.at)
	if len(f.values) == 0 || floor <= 0 {
		return 0, false
	}
	return quantile(f.values, f.at) / floor, true
}

// print writes the table of all figures.
func print(out io.Writer, figures []figure) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "what\tn\tat\tvalue\tfloor\tn\tvalue\tratio\tgoal\t")
	for _, f := range figures {
		ratio, goal, verdict := "-", "-", ""
		got, ok := f.ratio()
		if ok {
			ratio = fmt.Sprintf("%.2f", got)
		}
		if f.atMost > 0 {
			goal = fmt.Sprintf("<= %.2f", f.atMost)
			if ok && got > f.atMost {
				verdict = "missed"
			}
		}
		fmt.Fprintf(table, "%s\t%d\tp%.0f\t%.3f %s\t%s\t%d\t%.3f %s\t%s\t%s\t%s\n",
			f.what, len(f.values), f.at*100, quantile(f.values, f.at), f.unit,
			f.floor, len(f.floors), quantile(f.floors, f.at), f.unit, ratio, goal, verdict)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, f := range figures {
		if f.comment != "" {
			fmt.Fprintf(out, "%s: %s\n", f.what, f.comment)
		}
	}
	return nil
}
