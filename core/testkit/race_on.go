//go:build race

package testkit

// raceDetector tells whether this test was built with the race detector.
const raceDetector = true
