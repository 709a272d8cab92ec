package report

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/anishathalye/porcupine"

	"torture/check"
	"torture/history"
	"torture/models"
)

// Kept is a history in a file, so that it can be checked again.
type Kept struct {
	Setting string
	Seed    int64
	Rules   models.Rules
	Family  *history.Family
	Events  []history.Span
}

// Keep writes an illegal history to the folder: the history, a short timeline, and Porcupine's diagram. It returns the
// path of the timeline.
func Keep(folder string, kept Kept, verdict check.Verdict, faults []check.Fault) (string, error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	base := filepath.Join(folder, fmt.Sprintf("%s-%d-%s", kept.Setting, kept.Seed, kept.Family.Name))
	whole, err := json.Marshal(kept)
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(base+".json", whole, 0o644); err != nil {
		return "", err
	}
	if verdict.Illegal != nil {
		if err := draw(base+".html", kept, verdict); err != nil {
			return "", err
		}
	}
	return base + ".txt", os.WriteFile(base+".txt", []byte(Timeline(kept, verdict, faults)), 0o644)
}

// Load reads what Keep has written.
func Load(path string) (kept Kept, err error) {
	whole, err := os.ReadFile(path)
	if err != nil {
		return kept, err
	}
	return kept, json.Unmarshal(whole, &kept)
}

func draw(path string, kept Kept, verdict check.Verdict) error {
	var annotations []porcupine.Annotation
	for _, event := range kept.Events {
		annotations = append(annotations, porcupine.Annotation{Tag: "servers", Start: event.From, End: event.To, Description: event.What})
	}
	verdict.Info.AddAnnotations(annotations)
	return porcupine.VisualizePath(models.Model(kept.Rules), verdict.Info, path)
}

// shownOps is how many operations a timeline shows: the last ones, which end with the fault.
const shownOps = 24

// Timeline returns the end of a history as text: for each operation when it was sent, by whom, what it was, and when
// the reply was received.
func Timeline(kept Kept, verdict check.Verdict, faults []check.Fault) string {
	var b strings.Builder
	fmt.Fprintf(&b, "setting %s, seed %d, %s (%s)\n\n", kept.Setting, kept.Seed, kept.Family.Name, kept.Family.Kind)
	for _, fault := range faults {
		fmt.Fprintf(&b, "%s: %s\n", fault.What, fault.Text)
	}
	var ops []*history.Op
	for _, op := range verdict.Illegal {
		ops = append(ops, op.Input.(*history.Op))
	}
	if ops == nil {
		for _, fault := range faults {
			ops = append(ops, fault.Ops...)
		}
	} else {
		b.WriteString("no order of these operations explains the last reply\n")
	}
	if len(ops) > shownOps {
		ops = ops[len(ops)-shownOps:]
	}
	if len(ops) > 0 {
		b.WriteString("\n" + table(ops, kept.Events))
	}
	return b.String()
}
