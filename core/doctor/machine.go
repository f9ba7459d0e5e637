package doctor

import (
	"context"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// The oldest kernel with all that the product uses: pidfd_open(2) 5.3, waiting
// on such a descriptor 5.4.
const minKernelMajor, minKernelMinor = 5, 4

// Bounds of file descriptors: a supervisor holds about ten an agent, a gateway
// two a request; Codex opens what it works on.
const (
	fewFiles    = 1024
	tooFewFiles = 256
)

// Bounds of free space in bytes, where the state is. A session keeps a copy of
// our build (40 MB) once, and evidence of a few MB a job; a worktree is a
// checkout.
const (
	littleSpace    = 1 << 30
	tooLittleSpace = 200 << 20
)

// machine looks at what the operating system gives.
func (p *patient) machine(context.Context) outcome {
	list := []Finding{judgePlatform(runtime.GOOS, runtime.GOARCH, kernelRelease())}
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		list = append(list, finding(groupMachine, "open files", Warning, "the limit can't be read: "+err.Error()))
	} else {
		list = append(list, judgeFiles(uint64(files.Max)))
	}
	if p.ground().err != nil {
		return outcome{findings: append(list, notChecked(groupMachine, "free space", "the folders"))}
	}
	var disk unix.Statfs_t
	if err := unix.Statfs(p.ground().State, &disk); err != nil {
		list = append(list, finding(groupMachine, "free space", Warning, "it can't be read: "+err.Error()))
	} else {
		list = append(list, judgeSpace(uint64(disk.Bavail)*uint64(disk.Bsize), p.ground().State))
	}
	return outcome{findings: list}
}

// kernelRelease returns what uname(2) says, or nothing.
func kernelRelease() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return ""
	}
	return unix.ByteSliceToString(name.Release[:])
}

func judgePlatform(system, arch, kernel string) Finding {
	f := finding(groupMachine, "platform", OK, fmt.Sprintf("%s/%s, kernel %s", system, arch, kernel))
	var major, minor int
	switch system {
	case "linux":
		if _, err := fmt.Sscanf(kernel, "%d.%d", &major, &minor); err != nil {
			f.Verdict, f.Remedy = Warning, fmt.Sprintf("make sure that the kernel is %d.%d or newer", minKernelMajor, minKernelMinor)
		} else if major < minKernelMajor || major == minKernelMajor && minor < minKernelMinor {
			f.Verdict = Failed
			f.Reason += fmt.Sprintf(": older than %d.%d, it has no descriptors of processes", minKernelMajor, minKernelMinor)
			f.Remedy = "use a newer kernel"
		}
	case "darwin":
		f.Verdict = Warning
		f.Reason += ": processes that outlive their parent can't be adopted or swept as on Linux"
		f.Remedy = "use Linux where that matters"
	default:
		f.Verdict, f.Remedy = Failed, "use Linux"
		f.Reason += ": not supported"
	}
	return f
}

// judgeFiles judges the hard limit: Go programs raise theirs to it.
func judgeFiles(limit uint64) Finding {
	if limit >= 1<<62 {
		return finding(groupMachine, "open files", OK, "no limit")
	}
	f := finding(groupMachine, "open files", OK, fmt.Sprintf("%d a process", limit))
	switch {
	case limit < tooFewFiles:
		f.Verdict = Failed
	case limit < fewFiles:
		f.Verdict = Warning
	default:
		return f
	}
	f.Reason += fmt.Sprintf("; a team needs %d", fewFiles)
	f.Remedy = fmt.Sprintf("raise the hard limit: ulimit -Hn %d", fewFiles)
	return f
}

func judgeSpace(free uint64, folder string) Finding {
	f := finding(groupMachine, "free space", OK, fmt.Sprintf("%s in %s", bytesText(free), folder))
	switch {
	case free < tooLittleSpace:
		f.Verdict = Failed
	case free < littleSpace:
		f.Verdict = Warning
	default:
		return f
	}
	f.Remedy = "free at least " + bytesText(littleSpace) + ", or move the state with MMO_STATE_HOME"
	return f
}

// bytesText is a size for people, in powers of 1024.
func bytesText(n uint64) string {
	if n >= 1<<30 {
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	}
	return fmt.Sprintf("%d MiB", n>>20)
}
