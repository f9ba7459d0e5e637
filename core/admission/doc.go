// Package admission decides whether jobs may start, may come back, and what they
// may spend. Its decisions are pure: they see one consistent view of the store
// and answer for a whole batch, so that the caller can commit the answer in the
// same transaction that took the view. A refusal changes nothing.
//
// Decide checks in this order, everything that can't change by waiting for the
// whole batch first:
//
//	the session admits                     AdmissionError session_not_admitting
//	the parent job admits                  AdmissionError parent_not_admitting
//	then of each member:
//	the caller may spawn the role          PermissionError
//	delegation depth                       AdmissionError depth
//	no role leads to itself                AdmissionError ancestor_role
//	low trust, literal tasks, task kinds   ValueError
//	mode                                   PermissionError
//	a write scope where one is required    ValueError
//	and then again of each member:
//	its route can be used                  AdmissionError route_unavailable
//	active agents of the session           AdmissionError active_agent_limit
//	active jobs of the role, all sessions  AdmissionError role_limit
//	writers of the session                 AdmissionError writer_limit
//	units of its resource, all sessions    AdmissionError resource_limit
//	write scopes, all sessions             AdmissionError write_scope_conflict
//	the session's budget                   AdmissionError budget
//
// A native agent counts as one level of depth, though it holds no capacity of
// its own. The words above are the Reason of the *core.Error and are stable; its
// Holders name who has what is missing.
//
// It knows no processes and no files: whether a holder lives, and what a write
// scope is on disk, are for the caller to find out.
package admission
