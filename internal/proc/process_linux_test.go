package proc

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// start starts a program that ends with the test at the latest.
func start(t testing.TB, name string, args ...string) (*Process, *exec.Cmd) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true} // what it starts ends too
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
		_ = cmd.Wait()
	})
	p, err := OpenProcess(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p, cmd
}

// eventually polls until ok, for a few seconds.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for until := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("in vain: %s", what)
		}
	}
}

// ends reports whether the process ends within d.
func ends(t testing.TB, p *Process, d time.Duration) bool {
	t.Helper()
	if p.pidfd == nil {
		time.Sleep(d)
		return p.Gone()
	}
	alarm, err := p.NewAlarm()
	if err != nil {
		t.Fatal(err)
	}
	defer alarm.Close()
	return alarm.Wait(d)
}

func TestProcessEnds(t *testing.T) {
	for _, pidfd := range []bool{true, false} {
		p, cmd := start(t, "sleep", "0.3")
		if !pidfd && p.pidfd != nil {
			p.pidfd.Close()
			p.pidfd = nil
		}
		if p.Gone() || ends(t, p, 10*time.Millisecond) {
			t.Error("gone too early")
		}
		if pidfd {
			begin := time.Now()
			if !ends(t, p, 10*time.Second) || time.Since(begin) > 5*time.Second {
				t.Errorf("its end was not seen for %v", time.Since(begin))
			}
			if stat, err := p.Stat(); err != nil || stat.State != Zombie || stat.Parent != os.Getpid() {
				t.Errorf("before it is waited for: %+v, %v", stat, err)
			}
			if _, err := p.CPU(); err != nil {
				t.Errorf("CPU of a zombie: %v", err)
			}
		}
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		if !p.Gone() || !ends(t, p, 0) {
			t.Error("not gone")
		}
		_, err1 := p.Stat()
		_, err2 := p.CPU()
		_, err3 := p.Threads()
		_, err4 := p.Mappings()
		_, err5 := p.Link("exe")
		_, err6 := p.OpenMain()
		_, err7 := OpenProcess(cmd.Process.Pid)
		_, err8 := OpenMemory(cmd.Process.Pid)
		for i, err := range []error{err1, err2, err3, err4, err5, err6, err7, err8} {
			if !errors.Is(err, ErrGone) {
				t.Errorf("pidfd %t: error %d is %v, want ErrGone", pidfd, i+1, err)
			}
		}
	}
}

// TestCPU compares what is read from outside with the process's own account.
func TestCPU(t *testing.T) {
	p, cmd := start(t, "sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done")
	main, err := p.OpenMain()
	if err != nil {
		t.Fatal(err)
	}
	defer main.Close()
	if main.TID != p.PID {
		t.Errorf("main thread %d of process %d", main.TID, p.PID)
	}
	var last time.Duration
	for !ends(t, p, 5*time.Millisecond) {
		now, err := p.CPU()
		if err != nil || now < last {
			t.Fatalf("%v after %v: %v", now, last, err)
		}
		usage, err := main.Usage()
		if err != nil || usage.CPU > now+20*time.Millisecond || usage.CPU < last-20*time.Millisecond {
			t.Errorf("thread used %v, process %v: %v", usage.CPU, now, err)
		}
		last = now
	}
	if last, err = p.CPU(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	own := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if d := (last - own).Abs(); d > 5*time.Millisecond || own < 10*time.Millisecond {
		t.Errorf("CPU %v, its own account %v", last, own)
	}
}

func TestStarted(t *testing.T) {
	before := SinceBoot()
	p, _ := start(t, "sleep", "100")
	after := SinceBoot()
	main, err := p.OpenMain()
	if err != nil {
		t.Fatal(err)
	}
	defer main.Close()
	started, err := main.Started()
	if err != nil {
		t.Fatal(err)
	}
	stat, err := p.Stat()
	if err != nil || stat.Started != started || stat.Parent != os.Getpid() {
		t.Errorf("%+v, started %v: %v", stat, started, err)
	}
	if started < before-tick || started > after {
		t.Errorf("started at %v, between %v and %v", started, before, after)
	}
}

// TestOnCPU looks from one CPU at what runs on another one: looking takes a CPU
// away.
func TestOnCPU(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("needs two CPUs")
	}
	runtime.LockOSThread() // not unlocked: nothing else may run there
	var cpus, mine, other unix.CPUSet
	if err := unix.SchedGetaffinity(0, &cpus); err != nil {
		t.Fatal(err)
	}
	for cpu := 0; other.Count() == 0; cpu++ {
		switch {
		case cpus.IsSet(cpu) && mine.Count() == 0:
			mine.Set(cpu)
		case cpus.IsSet(cpu):
			other.Set(cpu)
		}
	}
	if err := unix.SchedSetaffinity(0, &mine); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args  []string
		state State
		on    bool
	}{
		{[]string{"sleep", "100"}, Sleeping, false},
		{[]string{"sh", "-c", "while :; do :; done"}, Running, true},
	} {
		p, _ := start(t, test.args[0], test.args[1:]...)
		if err := unix.SchedSetaffinity(p.PID, &other); err != nil {
			t.Fatal(err)
		}
		main, err := p.OpenMain()
		if err != nil {
			t.Fatal(err)
		}
		defer main.Close()
		eventually(t, "state "+string(rune(test.state)), func() bool {
			state, err := main.State()
			return err == nil && state == test.state
		})
		time.Sleep(50 * time.Millisecond) // it has started up
		on := 0
		const times = 200
		first, err := main.Usage()
		if err != nil {
			t.Fatal(err)
		}
		for range times {
			time.Sleep(time.Millisecond)
			yes, err := main.OnCPU()
			if err != nil {
				t.Fatal(err)
			}
			if yes {
				on++
			}
		}
		last, err := main.Usage()
		if err != nil {
			t.Fatal(err)
		}
		if !test.on && (on > 0 || last != first) {
			t.Errorf("%s: on a CPU %d times of %d, used %v", test.args, on, times, last.CPU-first.CPU)
		}
		if test.on && (last.CPU-first.CPU < 20*time.Millisecond || on < times/10) { // it may have to wait
			t.Errorf("%s: on a CPU %d times of %d, used %v", test.args, on, times, last.CPU-first.CPU)
		}
		_ = unix.Kill(p.PID, unix.SIGKILL)
		eventually(t, "its end", func() bool { _, err := main.Usage(); return err != nil || p.Gone() })
	}
}

func TestThreads(t *testing.T) {
	p, err := OpenProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	mine, stop := make(chan int), make(chan bool)
	locked := func() {
		runtime.LockOSThread() // not unlocked: the thread ends with the goroutine
		mine <- unix.Gettid()
		<-stop
	}
	go locked()
	tid := <-mine
	if tid == p.PID { // but the first one, which only stops
		go locked()
		tid = <-mine
	}
	tids, err := p.Threads()
	if err != nil || !slices.Contains(tids, tid) || !slices.Contains(tids, p.PID) {
		t.Errorf("threads %v, without %d or %d: %v", tids, tid, p.PID, err)
	}
	thread, err := p.OpenThread(tid)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := thread.OnCPU(); err != nil {
		t.Error(err)
	}
	close(stop)
	eventually(t, "the end of a thread", func() bool { _, err := thread.Usage(); return errors.Is(err, ErrGone) })
	_, err1 := thread.State()
	_, err2 := thread.OnCPU()
	_, err3 := thread.Started()
	_, err4 := p.OpenThread(tid)
	for i, err := range []error{err1, err2, err3, err4} {
		if !errors.Is(err, ErrGone) {
			t.Errorf("error %d of a thread that has ended is %v", i+1, err)
		}
	}
	thread.Close()
	thread.Close()
}

func TestDescendants(t *testing.T) {
	p, _ := start(t, "sh", "-c", "sh -c 'sleep 100 & sleep 100 & wait' & sleep 100 & wait")
	eventually(t, "four descendants", func() bool { return len(Descendants(p.PID)) == 4 })
	all := Descendants(p.PID)
	for i, pid := range all {
		child, err := OpenProcess(pid)
		if err != nil {
			t.Fatal(err)
		}
		stat, err := child.Stat()
		child.Close()
		if at := slices.Index(all, stat.Parent); err != nil || at >= i || at < 0 && stat.Parent != p.PID {
			t.Errorf("%d, number %d of %v, is a child of %d: %v", pid, i, all, stat.Parent, err)
		}
	}
	if !slices.Contains(Descendants(os.Getpid()), p.PID) {
		t.Error("our own child is none of ours")
	}
	if got := Descendants(1 << 30); len(got) > 0 {
		t.Errorf("descendants of nobody: %v", got)
	}
}

func TestAlarm(t *testing.T) {
	p, _ := start(t, "sleep", "100")
	alarm, err := p.NewAlarm()
	if err != nil {
		t.Fatal(err)
	}
	defer alarm.Close()
	for _, d := range []time.Duration{-1, 0, time.Microsecond, time.Millisecond, 20 * time.Millisecond} {
		for range 3 {
			begin := time.Now()
			if alarm.Wait(d) {
				t.Fatalf("ended within %v", d)
			}
			if took := time.Since(begin); took < d {
				t.Errorf("waited %v of %v", took, d)
			}
		}
	}
}
