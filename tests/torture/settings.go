package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"torture/clients"
	"torture/faults"
	"torture/models"
)

const ms = time.Millisecond

// slowness is how much later than usual an answer may be: the environment's, as for the other tests.
func slowness() float64 {
	if factor, err := strconv.ParseFloat(os.Getenv("SLOWNESS"), 64); err == nil && factor > 1 {
		return factor
	}
	return 1
}

func patient(d time.Duration) time.Duration { return time.Duration(float64(d) * slowness()) }

// setting is how servers, clients and the coordinator are set up, and what is expected.
type setting struct {
	name    string
	config  []string // of the servers
	clients clients.Settings
	faults  faults.Settings
	rules   models.Rules
	// finds: the run is to find a second holder, and ends when it has.
	finds   bool
	reserve time.Duration // lock.fair-reserve
	life    time.Duration // the shortest of a family
	// So long may the machine stand still, and a second holder is one; 0: as long as it likes.
	stands time.Duration
}

const (
	longestLease  = 400 * ms
	defaultLease  = 300 * ms
	grace         = 100 * ms
	fairReserve   = 100 * ms
	lag           = time.Second
	spare         = 200 * ms
	quarantine    = longestLease + lag + 3*time.Second + spare // docs/safety.md; clocks are one here
	replicasLimit = 300 * ms
)

// base is what all have in common.
func base(name string) setting {
	return setting{
		name: name,
		config: []string{
			"--lock.default-lease", number(defaultLease), "--lock.session-grace", number(grace),
			"--lock.fair-reserve", number(fairReserve),
		},
		clients: clients.Settings{
			Shortest: 60 * ms, Longest: longestLease, DefaultLease: defaultLease, RenewsAtOnce: true,
			LongestBlock: 400 * ms, Patience: patient(800 * ms), SlowestNews: 1500 * ms, Hold: 4 * ms, Sessions: 15,
			LongestStay: time.Second,
		},
		faults: faults.Settings{Detection: 250 * ms, Beside: 1500 * ms, Well: 1200 * ms},
		rules: models.Rules{
			DefaultLease: defaultLease, Grace: grace, Tolerance: 5 * ms,
		},
		reserve: fairReserve,
		life:    2500 * ms,
	}
}

func number(d time.Duration) string { return fmt.Sprint(d.Milliseconds()) }

// unprotected: a failover loses grants, and the old master goes on.
func unprotected() setting {
	s := base("unprotected")
	s.finds = true
	return s
}

// calm: no server fails. What is asked for is stricter.
func calm() setting {
	s := base("calm")
	s.faults.Calm = true
	s.rules.Strict = true
	s.stands = defaultLease / 3 // sessions are renewed when so much of a lease is over
	return s
}

// replicas: claim 5 of docs/safety.md. The servers' own renewals wait for nobody, so there are no sessions.
func replicas() setting {
	s := base("replicas")
	s.clients.Replicas, s.clients.ReplicasLimit, s.clients.Sessions = 1, replicasLimit, 0
	return s
}

// quarantined: claims 6 and 8 of docs/safety.md, and what they assume.
func quarantined() setting {
	s := base("quarantine")
	s.config = append(s.config,
		"--lock.max-lease", number(longestLease), "--lock.quarantine", number(quarantine),
		"--min-replicas-to-write", "1", "--min-replicas-max-lag", fmt.Sprint(int(lag.Seconds())))
	s.clients.RenewsAtOnce = false
	// So long that the old master goes on beyond the quarantine of the new one, at times.
	s.clients.SlowestNews, s.faults.Beside = quarantine*3/2, quarantine*3/2
	s.faults.Well = quarantine * 3 / 2
	s.clients.LongestStay = 3 * quarantine
	s.life = quarantine
	s.stands = spare / 2
	return s
}

// settings by name, in the order of `all`.
var settings = []func() setting{unprotected, replicas, quarantined, frozen, calm}

// frozen: the same, with masters that are stopped for longer than a quarantine, and clients that have sent them
// something meanwhile, and have neither heard of the new one nor given up. That is what it takes to see a master that
// goes on before it has counted its replicas.
func frozen() setting {
	s := quarantined()
	s.name = "frozen"
	s.faults.Only, s.faults.Beside = "frozen", 2*quarantine
	s.clients.SlowestNews, s.clients.Patience = 4*quarantine, quarantine
	return s
}

// without takes an assumption out: then a second holder is to be found.
var without = map[string]func(s *setting){
	"quarantine":   func(s *setting) { s.config = append(s.config, "--lock.quarantine", "0") },
	"long-enough":  func(s *setting) { s.config = append(s.config, "--lock.quarantine", number(longestLease+500*ms)) },
	"min-replicas": func(s *setting) { s.config = append(s.config, "--min-replicas-to-write", "0") },
	"replicas":     func(s *setting) { s.clients.Replicas = 0 },
}
