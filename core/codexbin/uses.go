package codexbin

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
)

// usesText lists what we use of the protocol, a line each:
//
//	request METHOD FIELD:SHAPE …    we send these fields
//	answer FILE PATH:SHAPE …        we read these of an answer
//	notice METHOD PATH:SHAPE …      we read these of a notification
//	question METHOD                 we answer this request of the server
//
// A SHAPE is a JSON type that the field must admit; a PATH steps through
// objects by dots.
//
//go:embed uses.txt
var usesText string

// useList names the list that a verdict was made with.
var useList = func() string {
	sum := sha256.Sum256([]byte(usesText))
	return hex.EncodeToString(sum[:8])
}()
