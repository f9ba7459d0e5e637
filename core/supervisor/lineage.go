package supervisor

import (
	"slices"

	"github.com/codex-mmo/codex-mmo/core/store"
)

// lineageInitial is why a session's first thread is its root.
const lineageInitial = "initial"

// bindRoot records the root's first thread.
func (s *Supervisor) bindRoot(rec *store.Session, thread string) {
	if rec.ThreadID != "" || thread == "" {
		return
	}
	rec.RootThread = store.RootThread{ThreadID: thread, Generation: 1, Lineage: []store.LineageEntry{{
		Generation: 1, ThreadID: thread, CodexSessionID: thread, AdoptedAt: s.cfg.now().UTC(), Reason: lineageInitial,
	}}}
}

// freshThread is a thread that the engine says has begun.
type freshThread struct {
	ID         string `json:"id"`
	ParentID   string `json:"parentThreadId"`
	Role       string `json:"agentRole"`
	Nickname   string `json:"agentNickname"`
	ForkedFrom string `json:"forkedFromId"`
	Ephemeral  bool   `json:"ephemeral"`
	Cwd        string `json:"cwd"`
}

// besideRoot reports whether a person began the thread at the top level, in the
// session's folder: it is no native child, no fork and no throw-away thread.
func (t *freshThread) besideRoot(rec *store.Session) bool {
	if t.ID == "" || t.ParentID != "" || t.Role != "" || t.Nickname != "" || t.ForkedFrom != "" || t.Ephemeral || t.Cwd != rec.Workspace {
		return false
	}
	return rec.ThreadID != "" && !slices.ContainsFunc(rec.Lineage, func(e store.LineageEntry) bool { return e.ThreadID == t.ID })
}

// noteFresh tells whoever looks on that a thread which was begun in the attached
// screen is not of the session. It can't become the root: the screen begins it
// without the root's permission profile (docs/decisions/0019).
func (a *agent) noteFresh(t *freshThread) {
	rec := a.sup.cachedSession()
	if a.jobID == "" && t.besideRoot(rec) && rec.Client != nil && identityOf(*rec.Client).Alive() {
		a.follow("notice", "thread "+t.ID+" was begun in the screen; the session goes on on thread "+rec.ThreadID)
	}
}
