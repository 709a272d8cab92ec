package report

import (
	"fmt"
	"sort"
	"strings"

	"torture/history"
)

const barWidth = 48

// table returns a row for each operation and each event, in the order of the requests. A bar shows the times:
// = the request is under way, - the client may rely on the lease, which counts from the request.
func table(ops []*history.Op, events []history.Span) string {
	from, to := ops[0].Call, int64(0)
	for _, op := range ops {
		if op.Call < from {
			from = op.Call
		}
		if op.Return != history.Never && op.Return > to {
			to = op.Return
		}
	}
	type row struct {
		at   int64
		text string
	}
	var rows []row
	for _, op := range ops {
		rows = append(rows, row{op.Call, fmt.Sprintf("%10.3f  %-*s  s%d  %s -> %s",
			float64(op.Call)/1e6, barWidth, bar(op, from, to), op.Server, op, op.Reply())})
	}
	for _, event := range events {
		if event.Overlaps(from, to) {
			rows = append(rows, row{event.From, fmt.Sprintf("%10.3f  %s", float64(event.From)/1e6, event.What)})
		}
	}
	sort.SliceStable(rows, func(i, j int) bool { return rows[i].at < rows[j].at })
	lines := []string{"    ms since the start; = under way; - may be relied on; sN: the server"}
	for _, one := range rows {
		lines = append(lines, one.text)
	}
	return strings.Join(lines, "\n") + "\n"
}

func bar(op *history.Op, from, to int64) string {
	column := func(moment int64) int {
		if moment > to {
			moment = to
		}
		return int(float64(moment-from) / (float64(to-from) + 1) * barWidth)
	}
	line := []byte(strings.Repeat(" ", barWidth))
	if op.Outcome == history.Done && (op.Kind == history.Acquire || op.Kind == history.Renew) {
		for i := column(op.Call); i <= column(op.Call+int64(op.Lease)) && i < barWidth; i++ {
			line[i] = '-'
		}
	}
	for i := column(op.Call); i <= column(op.Return) && i < barWidth; i++ {
		line[i] = '='
	}
	return string(line)
}
