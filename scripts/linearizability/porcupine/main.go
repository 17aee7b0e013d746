// Checks histories with Porcupine. The argument is a JSON file with one table of states per object; prints Ok, Illegal
// or Unknown for each, one per line.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

type operation struct {
	InvokedAt   float64  `json:"invoked_at"`
	AnsweredAt  *float64 `json:"answered_at"`
	Transitions [][2]int `json:"transitions"`
}

type history struct {
	Object     string      `json:"object"`
	States     int         `json:"states"`
	Operations []operation `json:"operations"`
}

// The longest search for one object. Only histories with a violation and many lost answers take so long.
const timeout = 5 * time.Second

// transitions are the input of an operation: the states after it, by the state before.
type transitions struct {
	to     map[int]int
	isLost bool
}

var model = (&porcupine.NondeterministicModel{
	Init: func() []interface{} { return []interface{}{0} },
	Step: func(state interface{}, input interface{}, _ interface{}) []interface{} {
		operation := input.(transitions)
		var next []interface{}
		if to, ok := operation.to[state.(int)]; ok {
			next = append(next, to)
		}
		// A call without an answer may never take effect.
		if operation.isLost {
			next = append(next, state)
		}
		return next
	},
	Equal: func(a, b interface{}) bool { return a.(int) == b.(int) },
}).ToModel()

func microseconds(millis float64) int64 { return int64(millis * 1000) }

func check(one history) porcupine.CheckResult {
	end := int64(0)
	for _, operation := range one.Operations {
		end = max(end, microseconds(operation.InvokedAt))
		if operation.AnsweredAt != nil {
			end = max(end, microseconds(*operation.AnsweredAt))
		}
	}
	operations := make([]porcupine.Operation, len(one.Operations))
	for index, operation := range one.Operations {
		to := make(map[int]int, len(operation.Transitions))
		for _, transition := range operation.Transitions {
			to[transition[0]] = transition[1]
		}
		answered := end + 1
		if operation.AnsweredAt != nil {
			answered = microseconds(*operation.AnsweredAt)
		}
		operations[index] = porcupine.Operation{
			ClientId: index,
			Input:    transitions{to: to, isLost: operation.AnsweredAt == nil},
			Call:     microseconds(operation.InvokedAt),
			Return:   answered,
		}
	}
	sort.SliceStable(operations, func(a, b int) bool { return operations[a].Call < operations[b].Call })
	return porcupine.CheckOperationsTimeout(model, operations, timeout)
}

func main() {
	content, err := os.ReadFile(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	var histories []history
	if err := json.Unmarshal(content, &histories); err != nil {
		log.Fatal(err)
	}
	for _, one := range histories {
		fmt.Println(check(one))
	}
}
