//go:build linux

package cpython

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func TestDbg(t *testing.T) {
	p := startPython(t, interpreters(t)[0], nil, "testdata/flutter.py", "chains")
	var ident uint64
	var edges [][2]string
	var text json.RawMessage
	p.read(t, &text)
	json.Unmarshal(text, &[]any{&ident, &edges})
	th := threads(t, p.open(t))[ident]
	n := 0
	hist := map[string]int{}
	for i := range 4000 {
		for until := time.Now().Add(time.Duration(rand.IntN(150)) * time.Microsecond); time.Now().Before(until); {
		}
		if th.Sample() != nil {
			continue
		}
		e := []string{}
		for _, f := range th.Frames {
			e = append(e, f.Code.Function)
		}
		hist[e[0]]++
		if strings.HasPrefix(e[0], "Thread") && n < 12 {
			n++
			fmt.Println(i, e, th.Frames[0].Offset, th.Frames[0].Code.Line(th.Frames[0].Offset), th.GIL)
			k := &th.take
			current := le.Uint64(k.cframeBuf[k.cframe-th.cframes.lo+8:])
			fmt.Printf("current %d\n", current)
			addr := th.take.frames[0].addr
			for range 6 {
				f, ok := k.onStack(th, addr)
				c := th.r.codes[f.code]
				fmt.Printf("  %v %+v\n", ok, f)
				if c == nil {
					break
				}
				fmt.Println("     ", c.Function, c.frameSize)
				addr += c.frameSize
			}
		}
	}
	fmt.Println(hist)
}
