// Torture: random commands of all kinds while servers fail, and a history checker. See README.md.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"torture/check"
	"torture/report"
)

type options struct {
	minutes         float64
	seed            int64
	setting         string
	without         string
	groups, clients int
	server, module  string
	folder          string
	again, check    string
}

func parse() options {
	var o options
	flag.Float64Var(&o.minutes, "minutes", 2, "how long all settings together take")
	flag.Int64Var(&o.seed, "seed", 0, "seed of all random decisions; 0: a new one")
	flag.StringVar(&o.setting, "setting", "all", "unprotected, replicas, quarantine, frozen, calm or all")
	flag.StringVar(&o.without, "without", "", "an assumption to drop, see README.md: then a second holder is expected")
	flag.IntVar(&o.groups, "groups", 1, "number of groups of a master and two replicas, which run in parallel")
	flag.IntVar(&o.clients, "clients", 12, "number of clients of each group")
	flag.StringVar(&o.server, "server", "redis-server", "the server program")
	flag.StringVar(&o.module, "module", "lock.so", "the module to load")
	flag.StringVar(&o.folder, "folder", "build/torture", "where illegal histories and the servers' logs are written")
	flag.StringVar(&o.again, "again", "", "check this kept history again, and do nothing else")
	flag.StringVar(&o.check, "check", "", "check this history in the format of lines.go, and do nothing else")
	flag.Parse()
	return o
}

func main() {
	o := parse()
	if err := do(o); err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
		os.Exit(1)
	}
}

func do(o options) error {
	if o.again != "" {
		return recheck(o.again)
	}
	if o.check != "" {
		return checkLines(o.check)
	}
	var err error
	if o.server, err = exec.LookPath(o.server); err != nil {
		return err
	}
	for _, path := range []*string{&o.server, &o.module, &o.folder} {
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	if o.seed == 0 {
		o.seed = time.Now().UnixNano() % 1000000007
	}
	chosen, err := choose(o)
	if err != nil {
		return err
	}
	var bad []string
	end := time.Now().Add(time.Duration(o.minutes * float64(time.Minute)))
	for i, set := range chosen {
		limit := time.Until(end) / time.Duration(len(chosen)-i)
		if text := runSetting(set, o, limit); text != "" {
			bad = append(bad, set.name+": "+text)
		}
	}
	if bad != nil {
		return fmt.Errorf("seed %d: %s", o.seed, strings.Join(bad, "; "))
	}
	return nil
}

func choose(o options) ([]setting, error) {
	var chosen []setting
	for _, one := range settings {
		if set := one(); o.setting == set.name || o.setting == "all" {
			chosen = append(chosen, set)
		}
	}
	if chosen == nil {
		return nil, fmt.Errorf("no setting %q", o.setting)
	}
	if o.without == "" {
		return chosen, nil
	}
	if without[o.without] == nil || len(chosen) > 1 {
		return nil, fmt.Errorf("no assumption %q of one setting", o.without)
	}
	without[o.without](&chosen[0])
	chosen[0].name += "-without-" + o.without
	chosen[0].finds = true
	return chosen, nil
}

// recheck checks a history that was kept.
func recheck(path string) error {
	kept, err := report.Load(path)
	if err != nil {
		return err
	}
	return checkKept(kept)
}

func checkKept(kept report.Kept) error {
	verdict := check.Locks(kept.Family, kept.Rules, time.Minute)
	faults := faultsOf(kept, verdict)
	fmt.Print(report.Timeline(kept, verdict, faults))
	fmt.Printf("%d operations in %d parts, %d undecided\n", verdict.Ops, verdict.Parts, verdict.Unknown)
	if len(faults) > 0 {
		return fmt.Errorf("%d faults", len(faults))
	}
	return nil
}

func faultsOf(kept report.Kept, verdict check.Verdict) []check.Fault {
	_, faults := check.Tokens(kept.Family)
	if verdict.Illegal != nil {
		faults = append(faults, secondHolder(kept.Family, verdict))
	}
	return faults
}
