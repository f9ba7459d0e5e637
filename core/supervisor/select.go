package supervisor

import (
	"context"
	"path/filepath"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/store"
)

// SelectInput says which session to resume.
type SelectInput struct {
	Ref     string // id of a session, or of any thread that is or was its root
	Last    bool   // the newest that can be resumed, instead of Ref
	Cwd     string // with Last: of this workspace alone
	AllCwds bool   // with Last: of any workspace
}

// Select finds the session to resume. The newest one is not chosen while any
// record of a session can't be read: it might be that one.
func Select(ctx context.Context, st *store.Store, in SelectInput) (found *store.Session, err error) {
	err = st.View(ctx, func(tx *store.Tx) error {
		if in.Last {
			found, err = newest(tx, in)
		} else {
			found, err = named(tx, in.Ref)
		}
		return err
	})
	return found, err
}

func named(tx *store.Tx, ref string) (*store.Session, error) {
	if core.ValidID(ref) {
		rec, err := tx.Session(ref)
		if err == nil || core.KindOf(err) != core.KindNotFound {
			return rec, err
		}
	}
	list, err := tx.Sessions(store.SessionFilter{})
	if err != nil {
		return nil, err
	}
	var found *store.Session
	for _, rec := range list {
		for _, e := range rec.Lineage {
			if e.ThreadID != ref {
				continue
			}
			if found != nil && found.SessionID != rec.SessionID {
				return nil, core.Errorf(core.KindValue, "thread %s identifies multiple MMO sessions: %s and %s", ref, found.SessionID, rec.SessionID).
					WithRemedy("name the session")
			}
			found = rec
		}
	}
	if found == nil {
		return nil, core.Errorf(core.KindNotFound, "no session or root thread %q", ref).WithRemedy("see `codex-mmo sessions`")
	}
	return found, nil
}

func newest(tx *store.Tx, in SelectInput) (*store.Session, error) {
	list, err := tx.Sessions(store.SessionFilter{Strict: true})
	if err != nil {
		return nil, err
	}
	cwd := in.Cwd
	if abs, err := filepath.Abs(cwd); err == nil {
		if real, err := filepath.EvalSymlinks(abs); err == nil {
			cwd = real
		}
	}
	var found *store.Session
	for _, rec := range list {
		switch {
		case rec.Status.Terminal() || rec.ThreadID == "" || !in.AllCwds && rec.Workspace != cwd:
		case found == nil || rec.LastActiveAt.After(found.LastActiveAt):
			found = rec
		}
	}
	if found != nil {
		return found, nil
	}
	where := "in " + cwd
	if in.AllCwds {
		where = "in any workspace"
	}
	return nil, core.Errorf(core.KindNotFound, "no resumable session %s", where).WithRemedy("see `codex-mmo sessions`; --all-cwds looks in every workspace")
}
