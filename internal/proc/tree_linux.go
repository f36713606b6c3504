package proc

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// maxTree bounds how many descendants are looked at.
const maxTree = 1 << 16

// Descendants returns the processes below root, children before their own
// children, without root. Those whose parent has ended belong to init and are
// not found.
func Descendants(root int) []int {
	var found []int
	seen := map[int]bool{root: true}
	for next := []int{root}; len(next) > 0 && len(found) < maxTree; {
		var children []int
		for _, pid := range next {
			for _, child := range childrenOf(pid) {
				if !seen[child] {
					seen[child] = true
					children = append(children, child)
				}
			}
		}
		found = append(found, children...)
		next = children
	}
	return found
}

// childrenOf lists the children that any thread of pid has started. It needs
// CONFIG_PROC_CHILDREN, which every distribution's kernel has.
func childrenOf(pid int) []int {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil
	}
	var children []int
	for _, task := range tasks {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, task.Name()))
		if err != nil {
			continue
		}
		for _, field := range bytes.Fields(text) {
			if child, err := strconv.Atoi(string(field)); err == nil {
				children = append(children, child)
			}
		}
	}
	return children
}
