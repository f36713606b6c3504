package launch

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// self is this program, even if its file was replaced.
const self = "/proc/self/exe"

// reapTimeout is how long we wait for an agent that has nothing left to do.
const reapTimeout = 50 * time.Millisecond

// agent is the front's view of the agent process. Its methods do nothing on
// nil: the command runs without one.
type agent struct {
	process *os.Process
	conn    *os.File
	say     func(string)

	sending sync.Mutex
	acked   chan struct{} // closed: the final clocks were read
	flushed chan struct{} // closed: the last profile is delivered
	gone    chan struct{} // closed: the process has ended, see state
	state   *os.ProcessState
	told    bool          // that it ended before the command; read it after gone
	over    chan struct{} // closed by us: the command has ended
}

// startAgent starts an agent in a session of its own, where no signal of the
// terminal or for our process group reaches it.
func startAgent(a Agent, say func(string)) (*agent, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("make a socket pair: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "control"), os.NewFile(uintptr(pair[1]), "control")
	defer theirs.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		ours.Close()
		return nil, err
	}
	defer null.Close()
	process, err := os.StartProcess(self, []string{"spanflame", "agent"}, &os.ProcAttr{
		Env:   os.Environ(),
		Files: []*os.File{null, null, os.Stderr, listenerFD: a.Listener, controlFD: theirs},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		ours.Close()
		return nil, err
	}
	a.Listener.Close() // a second Close does no harm
	g := &agent{
		process: process, conn: ours, say: say,
		acked: make(chan struct{}), flushed: make(chan struct{}),
		gone: make(chan struct{}), over: make(chan struct{}),
	}
	g.send(message{Kind: kindHandoff, Handoff: a.Handoff})
	go g.receive()
	go g.await()
	return g, nil
}

func (g *agent) pid() int {
	if g == nil {
		return 0
	}
	return g.process.Pid
}

// send is bounded by a deadline: an agent that is stopped, or does not read,
// holds nobody up. A failure shows as the agent's end.
func (g *agent) send(m message) {
	if g == nil {
		return
	}
	data, err := json.Marshal(m)
	if err != nil {
		return // no message of ours
	}
	g.sending.Lock()
	defer g.sending.Unlock()
	_ = g.conn.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = g.conn.Write(append(data, '\n'))
}

func (g *agent) receive() {
	var ack, flush sync.Once
	for decoder := json.NewDecoder(g.conn); ; {
		var m message
		if decoder.Decode(&m) != nil {
			return
		}
		switch m.Kind {
		case kindAck:
			ack.Do(func() { close(g.acked) })
		case kindFlushed:
			flush.Do(func() { close(g.flushed) })
		}
	}
}

// await reaps the agent and says so when it ends before its time.
func (g *agent) await() {
	state, err := g.process.Wait()
	if err == nil {
		g.state = state
	}
	defer close(g.gone)
	select {
	case <-g.over:
	default:
		g.told = true
		g.say(fmt.Sprintf("the agent ended (%v); the command runs on unprofiled", g.state))
	}
}

// commandEnded lets the agent read the zombie's clocks.
func (g *agent) commandEnded(pid int) {
	if g == nil {
		return
	}
	close(g.over)
	g.send(message{Kind: string(Exited), PID: pid})
	select {
	case <-g.acked:
	case <-g.gone:
	case <-time.After(ackTimeout):
	}
}

// finish waits until the agent has delivered, which is when it says so or ends.
// It may live on then, for processes that the command left behind.
func (g *agent) finish(timeout time.Duration, impatient <-chan struct{}) {
	if g == nil {
		return
	}
	defer g.conn.Close()
	select {
	case <-g.flushed:
		// Usually it ends now, and is better reaped by us than by whatever
		// process 1 is.
		g.conn.Close()
		select {
		case <-g.gone:
		case <-time.After(reapTimeout):
		}
		return
	case <-g.gone:
		if !g.told && (g.state == nil || !g.state.Success()) {
			g.say(fmt.Sprintf("the agent ended early (%v); profiles may be missing", g.state))
		}
		return
	case <-impatient:
		g.say("interrupted; what was not delivered yet is lost")
	case <-time.After(timeout + killGrace):
		g.say(fmt.Sprintf("the agent did not deliver the last profile within %s; a longer --shutdown-timeout may help", timeout))
	}
	_ = g.process.Kill()
	<-g.gone
}
