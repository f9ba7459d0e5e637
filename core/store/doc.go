// Package store keeps the records of all sessions in one SQLite database and
// their evidence in files, so that what was acknowledged survives any crash.
//
// A record is a row: the columns that admission and listing need, derived from
// the record, and the whole record as strict JSON in column payload. Every read
// checks the row again: schema, package, identity, unknown fields, and that the
// columns still say what the payload says. A row that fails is refused by name,
// in place and untouched; its neighbours go on. Readers never change a row.
//
//	<state>/state.db         the database, WAL mode, 0600
//	<state>/state.db.lock    writers queue here (flock) before BEGIN IMMEDIATE
//	<state>/state.db.users   shared flock while open; tells an unclean end
//
// Order of publication: [Publish] the file, then one [Store.Update] whose row
// names the file's size and digest, then acknowledge. A file that no row names
// is garbage; a row whose file is missing or differs is told as such by
// [ReadPublished].
//
// Everything a transaction did is on disk when Update returns
// (synchronous=FULL).
package store
