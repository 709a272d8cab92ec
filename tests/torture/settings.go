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

// slowness is how many times longer than usual a reply may take: from the environment, as for the other tests.
func slowness() float64 {
	if factor, err := strconv.ParseFloat(os.Getenv("SLOWNESS"), 64); err == nil && factor > 1 {
		return factor
	}
	return 1
}

func patient(d time.Duration) time.Duration { return time.Duration(float64(d) * slowness()) }

// setting describes how servers, clients and the coordinator are configured, and what is expected.
type setting struct {
	name    string
	config  []string // of the servers
	clients clients.Settings
	faults  faults.Settings
	rules   models.Rules
	// finds: the run must find a second holder, and ends when it has.
	finds   bool
	reserve time.Duration // lock.fair-reserve
	life    time.Duration // the shortest life of a family
	// If the machine was stalled for longer, a second holder does not count; 0: it always counts.
	maxStall time.Duration
}

const (
	longestLease  = 400 * ms
	defaultLease  = 300 * ms
	grace         = 100 * ms
	fairReserve   = 100 * ms
	lag           = time.Second
	spare         = 200 * ms
	quarantine    = longestLease + lag + 3*time.Second + spare // docs/safety.md; here all use one clock
	replicasLimit = 300 * ms
)

// base is what all settings have in common.
func base(name string) setting {
	return setting{
		name: name,
		config: []string{
			"--lock.default-lease", number(defaultLease), "--lock.session-grace", number(grace),
			"--lock.fair-reserve", number(fairReserve),
		},
		clients: clients.Settings{
			Shortest: 60 * ms, Longest: longestLease, DefaultLease: defaultLease, RenewsAtOnce: true,
			LongestBlock: 400 * ms, Patience: patient(800 * ms), SlowestDiscovery: 1500 * ms, Hold: 4 * ms, Sessions: 15,
			LongestSession: time.Second,
		},
		faults: faults.Settings{Detection: 250 * ms, Overlap: 1500 * ms, Between: 1200 * ms},
		rules: models.Rules{
			DefaultLease: defaultLease, Grace: grace, Tolerance: 5 * ms,
		},
		reserve: fairReserve,
		life:    2500 * ms,
	}
}

func number(d time.Duration) string { return fmt.Sprint(d.Milliseconds()) }

// unprotected: a failover loses grants, and the old master continues to grant locks.
func unprotected() setting {
	s := base("unprotected")
	s.finds = true
	return s
}

// calm: no server fails. The rules are stricter.
func calm() setting {
	s := base("calm")
	s.faults.Calm = true
	s.rules.Strict = true
	s.maxStall = defaultLease / 3 // sessions are renewed after this part of a lease
	return s
}

// replicas: claim 5 of docs/safety.md. The servers' own renewals do not wait for replicas, so there are no sessions.
func replicas() setting {
	s := base("replicas")
	s.clients.Replicas, s.clients.ReplicasLimit, s.clients.Sessions = 1, replicasLimit, 0
	return s
}

// quarantined: claims 6 and 8 of docs/safety.md, with their assumptions.
func quarantined() setting {
	s := base("quarantine")
	s.config = append(s.config,
		"--lock.max-lease", number(longestLease), "--lock.quarantine", number(quarantine),
		"--min-replicas-to-write", "1", "--min-replicas-max-lag", fmt.Sprint(int(lag.Seconds())))
	s.clients.RenewsAtOnce = false
	// Long enough that the old master sometimes continues beyond the quarantine of the new one.
	s.clients.SlowestDiscovery, s.faults.Overlap = quarantine*3/2, quarantine*3/2
	s.faults.Between = quarantine * 3 / 2
	s.clients.LongestSession = 3 * quarantine
	s.life = quarantine
	s.maxStall = spare / 2
	return s
}

// settings by name, in the order of `all`.
var settings = []func() setting{unprotected, replicas, quarantined, frozen, calm}

// frozen: the same, with masters that are stopped for longer than a quarantine, and clients that have sent them
// commands meanwhile, and have neither noticed the new master nor given up. This is needed to detect a master that
// continues before it has counted its replicas.
func frozen() setting {
	s := quarantined()
	s.name = "frozen"
	s.faults.Only, s.faults.Overlap = "frozen", 2*quarantine
	s.clients.SlowestDiscovery, s.clients.Patience = 4*quarantine, quarantine
	return s
}

// without drops an assumption: then a second holder must be found.
var without = map[string]func(s *setting){
	"quarantine":   func(s *setting) { s.config = append(s.config, "--lock.quarantine", "0") },
	"long-enough":  func(s *setting) { s.config = append(s.config, "--lock.quarantine", number(longestLease+500*ms)) },
	"min-replicas": func(s *setting) { s.config = append(s.config, "--min-replicas-to-write", "0") },
	"replicas":     func(s *setting) { s.clients.Replicas = 0 },
}
