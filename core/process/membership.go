package process

import "os"

// membership returns the test by which an entry belongs to the retired leader
// on its own account; what is below such an entry belongs too.
func (r *retirement) membership(entries []Entry) func(Entry) bool {
	led := r.led(entries)
	adopts := children.adoptsFor(r.leader)
	self := os.Getpid()
	return func(e Entry) bool {
		switch {
		case r.members[e.PID].Same(e.Identity):
			return true
		case led.covers(e, e.SID), led.covers(e, e.PGID):
			return true
		case adopts && e.PPID == self && !children.tracks(e.PID):
			return true
		default:
			return r.mark != "" && !e.ended() && markBelongs(r.table.Mark(e.Identity), r.mark)
		}
	}
}

// led are the sessions and process groups that members lead or led, by their
// number, which is the pid of that member.
type led map[int]Identity

// led leaves out a number that belongs to another process by now. As long as a
// session or a group has members the kernel gives its number to nobody else,
// so a foreign holder proves that ours is empty.
func (r *retirement) led(entries []Entry) led {
	l := make(led)
	for pid, id := range r.members {
		if id.SID == pid || id.PGID == pid {
			l[pid] = id
		}
	}
	for _, e := range entries {
		if id, ok := l[e.PID]; ok && !id.Same(e.Identity) {
			delete(l, e.PID)
		}
	}
	return l
}

// covers reports whether an entry stands in the session or group of that
// number. It must not be older than the leader was.
func (l led) covers(e Entry, number int) bool {
	id, ok := l[number]
	return ok && id.BootID == e.BootID && !startedBefore(e.Identity, id)
}
