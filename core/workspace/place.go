package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Nothing here replaces or deletes a file under the name that the user knows
// it by: between a look at it and the act an editor may save. What is at the
// name is moved aside first, looked at there, and brought back when it is not
// what was expected. (What a program writes through a file that it had opened
// before goes where that file goes.)

// renames are the ways to rename in a folder without replacing anything.
type renames struct {
	free func(dir *os.File, from, to string) error // the new name must be free
	swap func(dir *os.File, a, b string) error     // in one step
}

// errMeanwhile says that somebody else changed a path since it was looked at.
var errMeanwhile = errors.New("it was changed meanwhile")

// spot is the path of a step: a name in a folder, and the names beside it.
type spot struct {
	*integration
	step  step
	dir   *os.File
	name  string
	temp  string // a file that is being written; nobody else's, ever
	aside string // a complete file on its way in, or what came out of the name
}

// spot opens the folder of the path of step n. The caller closes it.
func (i *integration) spot(n int) (*spot, error) {
	step := i.rec.Steps[n]
	dir, name, err := i.tree.parent(string(step.Path))
	if err != nil {
		return nil, err
	}
	return &spot{integration: i, step: step, dir: dir, name: name, temp: i.rec.temp(n), aside: i.rec.aside(n)}, nil
}

func (s *spot) close() { _ = s.dir.Close() }

// holds fails with errMeanwhile when a name does not hold what it should.
func (s *spot) holds(name string, want content) error {
	now, err := contentAt(s.dir, name, len(s.rec.BaseTree))
	if err == nil && !now.same(want) {
		err = errMeanwhile
	}
	return err
}

// tell tells the trace what comes next.
func (s *spot) tell(what string) { s.integration.step(what, string(s.step.Path)) }

func (s *spot) drop(name string) error { return unix.Unlinkat(int(s.dir.Fd()), name, 0) }

// take deletes what is at the name if it is as expected.
func (s *spot) take(now content) error {
	if err := s.holds(s.name, now); err != nil {
		return err
	}
	s.tell("move aside")
	if err := s.moveAside(); err != nil {
		return err
	}
	s.tell("look aside")
	if err := s.holds(s.aside, now); err != nil {
		return s.back(err, s.moveBack)
	}
	s.tell("drop aside")
	return s.drop(s.aside)
}

// give puts the complete temporary file at the name, in place of what is
// expected there.
func (s *spot) give(now content) error {
	if err := s.holds(s.name, now); err != nil {
		return err
	}
	s.tell("swap")
	if now.Mode == modeAbsent {
		return s.giveName(s.temp)
	}
	if err := unix.Renameat(int(s.dir.Fd()), s.temp, int(s.dir.Fd()), s.aside); err != nil {
		return err
	}
	switch err := s.renames.swap(s.dir, s.aside, s.name); {
	case unsupported(err):
		return s.giveInTwo(now)
	case errors.Is(err, fs.ErrNotExist): // the name is free now
		return errors.Join(errMeanwhile, s.drop(s.aside))
	case err != nil:
		return err
	}
	s.tell("look aside")
	if err := s.holds(s.aside, now); err != nil {
		return s.back(err, s.swapBack)
	}
	s.tell("drop aside")
	return s.drop(s.aside)
}

// back brings back what was not expected, and returns why. When that fails the
// path is not as it was, so the reason is no errMeanwhile.
func (s *spot) back(why error, how func() error) error {
	if err := how(); err != nil {
		return fmt.Errorf("%s: %w", why.Error(), err)
	}
	return why
}

// swapBack brings back what came out of the name. If somebody saved there since
// we did, or does just now, both stay.
func (s *spot) swapBack() error {
	ours, err := contentAt(s.dir, s.name, len(s.rec.BaseTree))
	switch {
	case err != nil:
		return err
	case ours.Mode == modeAbsent:
		return s.moveBack()
	case !s.known(ours):
		return s.errKept()
	}
	if err := s.renames.swap(s.dir, s.aside, s.name); err != nil {
		return err
	}
	if err := s.holds(s.aside, ours); err != nil {
		return s.errKept()
	}
	return s.drop(s.aside)
}

// giveInTwo does what give does where the file system can't swap names: for a
// moment the name is free.
func (s *spot) giveInTwo(now content) error {
	if err := unix.Renameat(int(s.dir.Fd()), s.aside, int(s.dir.Fd()), s.temp); err != nil {
		return err
	}
	if err := s.moveAside(); err != nil {
		return err
	}
	s.tell("look aside")
	if err := s.holds(s.aside, now); err != nil {
		return s.back(err, s.moveBack)
	}
	s.tell("give")
	if err := s.giveName(s.temp); err != nil { // somebody was faster, or it failed: the roll back brings it back
		return err
	}
	s.tell("drop aside")
	return s.drop(s.aside)
}

// moveAside takes the name from a file.
func (s *spot) moveAside() error {
	if err := s.holds(s.aside, content{}); err != nil {
		return s.errKept() // it is what an earlier try could not bring back
	}
	err := unix.Renameat(int(s.dir.Fd()), s.name, int(s.dir.Fd()), s.aside)
	if errors.Is(err, fs.ErrNotExist) {
		return errMeanwhile
	}
	return err
}

// moveBack gives the name back to what was moved aside.
func (s *spot) moveBack() error {
	err := s.giveName(s.aside)
	if errors.Is(err, errMeanwhile) {
		return s.errKept()
	}
	return err
}

// giveName gives one of our files the name if it is free. Where the file system
// can't do that in one step a hard link can; one that can't do that either
// can't be written to safely, so it fails.
func (s *spot) giveName(from string) error {
	err := s.renames.free(s.dir, from, s.name)
	if unsupported(err) {
		fd := int(s.dir.Fd())
		if err = unix.Linkat(fd, from, fd, s.name, 0); err == nil {
			err = s.drop(from)
		}
	}
	if errors.Is(err, fs.ErrExist) {
		return errMeanwhile
	}
	return err
}

// unsupported tells whether a file system or kernel does not know a way to
// rename; see rename(2).
func unsupported(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.ENOTSUP)
}

// errKept tells where a second save that nobody could foresee is.
func (s *spot) errKept() error {
	return fmt.Errorf("what was saved there meanwhile is kept beside it as %s", s.aside)
}

// known tells whether the journal has the bytes of a content of this path.
func (s *spot) known(c content) bool {
	return c.Mode == modeAbsent || s.step.Before.same(c) || s.step.After.same(c)
}

// reclaim ends what a crash or failure left beside the path: it brings back
// what came out of the name, unless the journal has it.
func (s *spot) reclaim() error {
	if err := s.drop(s.temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	aside, err := contentAt(s.dir, s.aside, len(s.rec.BaseTree))
	if err != nil || aside.Mode == modeAbsent {
		return err
	}
	s.tell("reclaim")
	now, err := contentAt(s.dir, s.name, len(s.rec.BaseTree))
	switch {
	case err != nil:
		return err
	case now.Mode == modeAbsent:
		return s.moveBack()
	case s.known(aside):
		return s.drop(s.aside)
	}
	if err = s.swapBack(); unsupported(err) { // the name holds a file of ours
		if err = s.drop(s.name); err == nil {
			err = s.moveBack()
		}
	}
	return err
}
