package main

import (
	"strings"
	"testing"
)

func TestQuantile(t *testing.T) {
	tests := []struct {
		values []float64
		q      float64
		want   float64
	}{
		{nil, 0.5, 0},
		{[]float64{7}, 0.99, 7},
		{[]float64{3, 1, 2}, 0.5, 2},
		{[]float64{4, 1, 3, 2}, 0.5, 2.5},
		{[]float64{0, 10}, 0.25, 2.5},
		{[]float64{1, 2, 3}, 1, 3},
	}
	for _, test := range tests {
		if got := quantile(test.values, test.q); got != test.want {
			t.Errorf("quantile(%v, %v) = %v, want %v", test.values, test.q, got, test.want)
		}
	}
}

func TestPrint(t *testing.T) {
	var out strings.Builder
	err := print(&out, []figure{
		{what: "good", floor: "least", unit: "ms", at: 0.5, values: []float64{2, 3, 4}, floors: []float64{2}, atMost: 1.5},
		{what: "bad", floor: "least", unit: "ms", at: 0.5, values: []float64{4}, floors: []float64{2}, atMost: 1.5, comment: "why"},
		{what: "alone", floor: "none", unit: "MB", at: 0.99, values: []float64{4}},
	})
	if err != nil {
		t.Fatal(err)
	}
	const want = `what   n  at   value     floor  n  value     ratio  goal     
good   3  p50  3.000 ms  least  1  2.000 ms  1.50   <= 1.50  
bad    1  p50  4.000 ms  least  1  2.000 ms  2.00   <= 1.50  missed
alone  1  p99  4.000 MB  none   0  0.000 MB  -      -        
bad: why
`
	if got := out.String(); got != want {
		t.Errorf("table:\n%q\nwant:\n%q", got, want)
	}
}
