package core

import "slices"

// SessionStatus is where a session is in its life. See docs/STATES.md.
type SessionStatus string

// The statuses of a session.
const (
	SessionStarting   SessionStatus = "starting"   // row created, root thread not open yet
	SessionRunning    SessionStatus = "running"    // root at work, a client is attached or it is headless
	SessionPaused     SessionStatus = "paused"     // cold: hosts retired, threads kept
	SessionDetached   SessionStatus = "detached"   // root lives, no client
	SessionSuspended  SessionStatus = "suspended"  // needs a person or a reset time; resume goes on
	SessionFinishing  SessionStatus = "finishing"  // end decided, jobs being ended
	SessionCancelling SessionStatus = "cancelling" // cancel decided, processes being retired
	SessionCompleted  SessionStatus = "completed"
	SessionFailed     SessionStatus = "failed"
	SessionCancelled  SessionStatus = "cancelled"
	SessionStopped    SessionStatus = "stopped"
)

// Terminal reports whether nothing can change the session any more.
func (s SessionStatus) Terminal() bool {
	switch s {
	case SessionCompleted, SessionFailed, SessionCancelled, SessionStopped:
		return true
	}
	return false
}

// OpenSessions lists the statuses of a session that are not terminal.
func OpenSessions() (open []SessionStatus) {
	for status := range sessionTransitions {
		if !status.Terminal() {
			open = append(open, status)
		}
	}
	slices.Sort(open)
	return open
}

// Valid reports whether s is a status of a session.
func (s SessionStatus) Valid() bool {
	_, ok := sessionTransitions[s]
	return ok
}

// Admitting reports whether a session in this status takes new jobs.
func (s SessionStatus) Admitting() bool { return s == SessionRunning || s == SessionDetached }

// sessionTransitions is the whole table: status -> statuses it may change to.
var sessionTransitions = map[SessionStatus][]SessionStatus{
	SessionStarting:   {SessionRunning, SessionDetached, SessionFailed, SessionFinishing, SessionCancelling, SessionStopped, SessionSuspended},
	SessionRunning:    {SessionPaused, SessionDetached, SessionSuspended, SessionFinishing, SessionFailed, SessionCancelling, SessionStopped},
	SessionPaused:     {SessionRunning, SessionSuspended, SessionFinishing, SessionFailed, SessionCancelling, SessionStopped},
	SessionDetached:   {SessionRunning, SessionPaused, SessionSuspended, SessionFinishing, SessionFailed, SessionCancelling, SessionStopped},
	SessionSuspended:  {SessionRunning, SessionDetached, SessionFinishing, SessionFailed, SessionCancelling, SessionStopped},
	SessionFinishing:  {SessionCompleted, SessionFailed, SessionCancelling, SessionStopped},
	SessionCancelling: {SessionCancelled},
	SessionCompleted:  {}, SessionFailed: {}, SessionCancelled: {}, SessionStopped: {},
}

// CanBecome reports whether the table has an arrow from s to next.
func (s SessionStatus) CanBecome(next SessionStatus) bool {
	return contains(sessionTransitions[s], next)
}

// JobStatus is where a delegated job is in its life. See docs/STATES.md.
type JobStatus string

// The statuses of a job.
const (
	JobQueued     JobStatus = "queued"     // admitted, host not launched yet
	JobRunning    JobStatus = "running"    // host launched; its thread works
	JobWaiting    JobStatus = "waiting"    // a question or approval must be answered
	JobPaused     JobStatus = "paused"     // turn interrupted on request, thread kept
	JobDetached   JobStatus = "detached"   // works on without its controller's interest
	JobSuspended  JobStatus = "suspended"  // can't go on by itself; continue or finalize relaunches it
	JobRecovering JobStatus = "recovering" // being relaunched on its thread
	JobCancelling JobStatus = "cancelling" // cancel decided, processes being retired

	JobCompleted             JobStatus = "completed"
	JobCompletedWithWarnings JobStatus = "completed_with_warnings"
	JobFailed                JobStatus = "failed"
	JobCancelled             JobStatus = "cancelled"
	JobStopped               JobStatus = "stopped"
)

// Terminal reports whether nothing can change the job's status any more.
func (s JobStatus) Terminal() bool {
	switch s {
	case JobCompleted, JobCompletedWithWarnings, JobFailed, JobCancelled, JobStopped:
		return true
	}
	return false
}

// Valid reports whether s is a status of a job.
func (s JobStatus) Valid() bool {
	_, ok := jobTransitions[s]
	return ok
}

// jobTransitions is the whole table: status -> statuses it may change to.
var jobTransitions = map[JobStatus][]JobStatus{
	JobQueued:     {JobRunning, JobPaused, JobFailed, JobCancelling, JobStopped, JobSuspended},
	JobRunning:    {JobWaiting, JobPaused, JobDetached, JobSuspended, JobRecovering, JobCompleted, JobCompletedWithWarnings, JobFailed, JobCancelling, JobStopped},
	JobWaiting:    {JobRunning, JobPaused, JobDetached, JobSuspended, JobRecovering, JobCompleted, JobCompletedWithWarnings, JobFailed, JobCancelling, JobStopped},
	JobPaused:     {JobRunning, JobRecovering, JobSuspended, JobFailed, JobCancelling, JobStopped, JobCompleted, JobCompletedWithWarnings},
	JobDetached:   {JobRunning, JobWaiting, JobPaused, JobSuspended, JobRecovering, JobCompleted, JobCompletedWithWarnings, JobFailed, JobCancelling, JobStopped},
	JobSuspended:  {JobRecovering, JobRunning, JobCompleted, JobCompletedWithWarnings, JobFailed, JobCancelling, JobStopped},
	JobRecovering: {JobRunning, JobWaiting, JobPaused, JobSuspended, JobCompleted, JobCompletedWithWarnings, JobFailed, JobCancelling, JobStopped},
	JobCancelling: {JobCancelled},
	JobCompleted:  {}, JobCompletedWithWarnings: {}, JobFailed: {}, JobCancelled: {}, JobStopped: {},
}

// CanBecome reports whether the table has an arrow from s to next.
func (s JobStatus) CanBecome(next JobStatus) bool { return contains(jobTransitions[s], next) }

// ResultKind tells a whole result from what could be saved of a broken one.
type ResultKind string

// The kinds of result. The zero value means that there is none yet.
const (
	ResultFinal   ResultKind = "final"
	ResultPartial ResultKind = "partial"
)

// ResultState is what the result's owner has done with it.
type ResultState string

// The states of a result. The zero value means that there is none yet.
const (
	ResultUnread     ResultState = "unread"
	ResultRead       ResultState = "read"
	ResultAccepted   ResultState = "accepted"
	ResultRejected   ResultState = "rejected"
	ResultIntegrated ResultState = "integrated"
)

func contains[T comparable](list []T, want T) bool {
	for _, v := range list {
		if v == want {
			return true
		}
	}
	return false
}

// SessionTransitions returns a copy of the session's transition table: status
// -> statuses it may change to.
func SessionTransitions() map[SessionStatus][]SessionStatus { return copyTable(sessionTransitions) }

// JobTransitions returns a copy of the job's transition table: status ->
// statuses it may change to.
func JobTransitions() map[JobStatus][]JobStatus { return copyTable(jobTransitions) }

func copyTable[T comparable](table map[T][]T) map[T][]T {
	c := make(map[T][]T, len(table))
	for from, to := range table {
		c[from] = append([]T(nil), to...)
	}
	return c
}
