package cpython

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"testing"
	"time"

	"github.com/spanflame/spanflame/internal/proc"
)

func TestDev(t *testing.T) {
	cmd := exec.Command("/root/.pyenv/versions/3.11.7/bin/python3.11", "-c", `
import threading, time
def leaf(n):
    x = 0
    for i in range(n): x += i
    return x
def a():
    for i in range(10): leaf(20)
def b():
    for i in range(10): leaf(21)
def gen():
    for i in range(10): yield leaf(5)
def c():
    return sum(gen()) + max(range(4), key=lambda v: leaf(3))
def spin():
    while True:
        a(); b(); c()
def sleeper():
    time.sleep(1000)
threading.Thread(target=sleeper, name="sleepy", daemon=True).start()
print("ready", flush=True)
spin()
`)
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	bufio.NewReader(out).ReadString('\n')
	p, err := proc.OpenProcess(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	mem, err := proc.OpenMemory(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	image, err := Locate(p)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("%+v\n", image)
	r, err := NewReader(mem, image)
	if err != nil {
		t.Fatal(err)
	}
	refs, err := r.Threads()
	fmt.Println(refs, err)
	fmt.Println(r.ThreadNames(func(uint64) bool { return true }))
	for _, ref := range refs {
		th := r.Thread(ref)
		edges := map[string]int{}
		fails := map[string]int{}
		begin := time.Now()
		const n = 20000
		for range n {
			for d := time.Now().Add(time.Duration(rand.IntN(300)) * time.Microsecond); time.Now().Before(d); {
			}
			if err := th.Sample(); err != nil {
				fails[err.Error()]++
				continue
			}
			e := ""
			for _, f := range th.Frames {
				e += f.Code.Function + "<"
			}
			edges[e]++
		}
		fmt.Println(time.Since(begin)/n, th.Torn, fails)
		for e, c := range edges {
			fmt.Println(c, e)
		}
	}
}
