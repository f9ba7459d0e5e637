package supervisor

import (
	"context"

	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/folders"
	"github.com/codex-mmo/codex-mmo/core/store"
)

// StoredView composes the public record of a session from the store alone, for
// sessions that no supervisor answers for. It changes nothing.
func StoredView(ctx context.Context, st *store.Store, f folders.Folders, id string) (*control.SessionView, error) {
	var view *control.SessionView
	var rec *store.Session
	var jobs []*store.Job
	err := st.View(ctx, func(tx *store.Tx) error {
		var err error
		if rec, err = tx.Session(id); err != nil {
			return err
		}
		jobs, err = tx.Jobs(store.JobFilter{SessionID: id})
		if err != nil {
			return err
		}
		list, err := tx.AgentRuns(id)
		if err != nil {
			return err
		}
		usage, err := tx.UsageOf(id)
		if err != nil {
			return err
		}
		runs := map[string]store.AgentRun{}
		for _, r := range list {
			runs[r.AgentRef] = *r
		}
		view = ViewSession(rec)
		root := runs[rec.RootAgentRef]
		view.RootThreadID, view.Recoveries, view.NativeRuns = root.ThreadID, root.RecoveryAttempts, nativeViews(&root)
		for _, j := range jobs {
			run := runs[j.AgentRef]
			view.Jobs = append(view.Jobs, ViewJob(j, &run, rec.Binary))
		}
		view.Usage = ViewUsage(usage, runs)
		return nil
	})
	if err != nil {
		return nil, err
	}
	view.Homes = ViewHomes(rec)
	view.Evidence = ListEvidence(f.SessionDir(id), f.JobDir, rec, jobs)
	return view, nil
}
