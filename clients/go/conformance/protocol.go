// Command conformance is the runner of the conformance suite, clients/conformance: it reads requests as lines of JSON
// from stdin, executes them with one flavour of the package, and writes its answers as such lines to stdout.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"sync"

	lockso "lock-so.invalid/lock-so/clients/go"
)

// request has the fields of all requests; clients/conformance/README.md describes them.
type request struct {
	ID         int      `json:"id"`
	Do         string   `json:"do"`
	As         string   `json:"as"`
	On         string   `json:"on"`
	To         place    `json:"to"`
	Pool       int      `json:"pool"`
	MaxBlockMs *int     `json:"max_block_ms"`
	ConnectMs  *int     `json:"connect_timeout_ms"`
	TimeoutMs  *int     `json:"timeout_ms"`
	HoldMs     int      `json:"hold_ms"`
	Tasks      int      `json:"tasks"`
	Own        *bool    `json:"own"`
	Close      bool     `json:"close"`
	Stop       bool     `json:"stop"`
	Lock       lockSpec `json:"lock"`
	WaitMs     *int     `json:"wait_ms"`
	Raise      bool     `json:"raise"`
	Until      bool     `json:"until"`
	Of         int      `json:"of"`
	Counter    string   `json:"counter"`
	Workers    int      `json:"workers"`
	Times      int      `json:"times"`
	Kind       string   `json:"kind"`
	Seed       uint64   `json:"seed"`
	Rounds     int      `json:"rounds"`
	LeaseMs    *int     `json:"lease_ms"` // of renew and latch_set; that of a lock is in Lock
	Command    []string `json:"command"`
	Key        string   `json:"key"`
	Count      int64    `json:"count"`
	By         int64    `json:"by"`
	Queue      string   `json:"queue"`
	Value      string   `json:"value"`
	DelayMs    int      `json:"delay_ms"`
	Item       *string  `json:"item"`
	MaxTries   *int     `json:"max_tries"`
	BackoffMs  *int     `json:"backoff_ms"`
	Fail       []string `json:"fail"`
	Hold       []string `json:"hold"`
	Jobs       *int     `json:"jobs"`
}

type place struct {
	Kind   string `json:"kind"`
	Port   int    `json:"port"`
	Ports  []int  `json:"ports"`
	Master string `json:"master"`
}

type lockSpec struct {
	Kind     string   `json:"kind"`
	Keys     []string `json:"keys"`
	Modes    []string `json:"modes"`
	Limit    *int     `json:"limit"`
	Permits  *int     `json:"permits"`
	LeaseMs  *int     `json:"lease_ms"`
	Session  bool     `json:"session"`
	Fenced   bool     `json:"fenced"`
	Replicas []int    `json:"replicas"`
	Renew    *bool    `json:"renew"`
	Watch    any      `json:"watch"`
	Again    bool     `json:"reentrant"`
	Members  []member `json:"members"`
	On       []string `json:"on"` // of a RedLock
}

// member is a lock of a combination, and the client that it is of.
type member struct {
	On   string   `json:"on"`
	Lock lockSpec `json:"lock"`
}

// fields are the fields of an answer or an event.
type fields map[string]any

var errBody = errors.New("the body's own error")

var codes = []struct {
	err  error
	code string
}{
	{errBody, "body"}, {context.Canceled, "cancelled"}, {lockso.ErrOption, "bad_option"}, {lockso.ErrClosed, "closed"},
	{lockso.ErrNotAcquired, "not_acquired"},
	{lockso.ErrNotHeld, "not_held"}, {lockso.ErrDeadlock, "deadlock"}, {lockso.ErrNoReplicas, "no_replicas"},
	{lockso.ErrModuleMissing, "module_missing"},
	{lockso.ErrRefused, "refused"}, {lockso.ErrConnection, "connection"},
}

func codeOf(err error) string {
	for _, row := range codes {
		if errors.Is(err, row.err) {
			return row.code
		}
	}
	return "other"
}

var stdout sync.Mutex

func say(line fields) {
	stdout.Lock()
	defer stdout.Unlock()
	json.NewEncoder(os.Stdout).Encode(line)
}

func answer(id int, with fields, err error) {
	line := fields{"id": id}
	if err != nil {
		line["error"], line["text"] = codeOf(err), err.Error()
	} else {
		line["ok"] = true
		for name, value := range with {
			line[name] = value
		}
	}
	say(line)
}

func main() {
	r := newRunner(flavours[os.Args[1]])
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var req request
		if err := json.Unmarshal(lines.Bytes(), &req); err != nil {
			answer(req.ID, nil, err)
			continue
		}
		if req.Do == "quit" {
			answer(req.ID, nil, r.close())
			return
		}
		r.begin(req)
	}
	r.close()
}
