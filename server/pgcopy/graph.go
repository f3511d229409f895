package pgcopy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// order returns the objects in an order in which they can be created, and sets
// their stages to ones that are possible. Where views depend on themselves
// through others, one is created as a draft first and replaced later.
func (c *catalog) order() ([]*item, error) {
	items := slices.Clone(c.items)
	for {
		sorted, cycle := sortByNeeds(items)
		if cycle == nil {
			raiseStages(sorted)
			slices.SortStableFunc(sorted, func(a, b *item) int { return cmp.Compare(a.stage, b.stage) })
			return sorted, checkStages(sorted)
		}
		draft := breakCycle(items, cycle)
		if draft == nil {
			names := make([]string, len(cycle))
			for i, it := range cycle {
				names[i] = it.String()
			}
			return nil, &UnsupportedError{Objects: []string{"objects that depend on each other: " + strings.Join(names, " → ")}}
		}
		items = append(items, draft)
	}
}

// sortByNeeds returns the objects with those first that others need. If there
// are some that need each other, it returns these instead.
func sortByNeeds(items []*item) (sorted, cycle []*item) {
	const (
		entered = 1
		left    = 2
	)
	state := make(map[*item]int, len(items))
	var path []*item
	var visit func(*item) bool
	visit = func(it *item) bool {
		switch state[it] {
		case left:
			return true
		case entered:
			cycle = slices.Clone(path[slices.Index(path, it):])
			return false
		}
		state[it] = entered
		path = append(path, it)
		for _, n := range it.needs {
			if !visit(n) {
				return false
			}
		}
		path = path[:len(path)-1]
		state[it] = left
		sorted = append(sorted, it)
		return true
	}
	for _, it := range items {
		if !visit(it) {
			return nil, cycle
		}
	}
	return sorted, nil
}

// breakCycle makes a draft of a view in the cycle and lets all others need that
// instead of the view. It returns nil if there is no such view.
func breakCycle(items, cycle []*item) *item {
	i := slices.IndexFunc(cycle, func(it *item) bool { return it.draft != nil })
	if i < 0 {
		return nil
	}
	view := cycle[i]
	draft := &item{kind: "draft of view", identity: view.identity, create: view.draft, needs: view.shape}
	view.draft = nil
	for _, it := range items {
		for j, n := range it.needs {
			if n == view && it != view {
				it.needs[j] = draft
			}
		}
	}
	view.needs = append(slices.DeleteFunc(view.needs, func(n *item) bool { return n == view }), draft)
	return draft
}

// raiseStages moves objects to the stage of what they need.
func raiseStages(sorted []*item) {
	for _, it := range sorted {
		for _, n := range it.needs {
			it.stage = max(it.stage, n.stage)
		}
	}
}

// checkStages makes sure that what rows need is there before them.
func checkStages(sorted []*item) error {
	for _, it := range sorted {
		switch it.kind {
		case "table", "foreign table", "sequence", "default value", "type":
			if it.stage > stageSchema {
				return &UnsupportedError{Objects: []string{fmt.Sprintf("%v, which depends on an index or constraint", it)}}
			}
		}
	}
	return nil
}

// stageOf returns the objects of a stage.
func stageOf(items []*item, st stage) []*item {
	var list []*item
	for _, it := range items {
		if it.stage == st {
			list = append(list, it)
		}
	}
	return list
}
