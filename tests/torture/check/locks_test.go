package check

import "testing"

func TestExclusive(t *testing.T) {
	checkWritten(t, lenient, map[string]string{
		"legal: one after the other": `
			0 1 a acquire px 100 = 1
			2 3 a release = 0
			4 5 b acquire px 100 = 1`,
		"legal: the hand-off before the reply to the release": `
			0 1 a acquire px 100 = 1
			1 5 b acquire px 100 block 50 = 1
			2 9 a release = 0`,
		"legal: after the lease, counted from the request": `
			0 9 a acquire px 100 = 1
			50 100 b acquire px 100 block 80 = 1`,
		"illegal: before the lease has ended": `
			0 1 a acquire px 100 = 1
			50 99 b acquire px 100 block 80 = 1`,
		"illegal: two at once": `
			0 1 a acquire px 100 = 1
			2 3 b acquire px 100 = 1`,
		"illegal: two at once, requested at the same time": `
			0 5 a acquire px 100 = 1
			0 5 b acquire px 100 = 1`,
		"illegal: a second one after a wait": `
			0 90 a acquire px 100 block 90 = 1
			80 100 c acquire px 100 block 50 = 1
			85 99 b acquire px 100 = 1`,
		"legal: null changes nothing": `
			0 1 a acquire px 100 = null
			2 3 b acquire px 100 = 1`,
		"legal: an acquisition without a reply belongs to no owner": `
			0 1 a acquire px 100 = unknown
			2 3 b acquire px 100 = 1`,
		"legal: a release without a reply": `
			0 1 a acquire px 100 = 1
			2 3 a release = unknown
			50 51 b acquire px 100 = 1`,
		"illegal: before a release without a reply": `
			0 1 a acquire px 100 = 1
			2 3 b acquire px 100 = 1
			4 5 a release = unknown`,
		"legal: a renewal without a reply, which shortens the lease": `
			0 1 a acquire px 100 = 1
			2 3 a renew px 10 = unknown
			13 14 b acquire px 100 = 1`,
		"illegal: a renewal counts from its request": `
			0 1 a acquire px 100 = 1
			80 81 a renew px 100 = 1
			150 160 b acquire px 100 = 1`,
		"legal: after the renewal": `
			0 1 a acquire px 100 = 1
			80 81 a renew px 100 = 1
			150 181 b acquire px 100 block 60 = 1`,
		"illegal: renewed while another has it": `
			0 1 a acquire px 100 = 1
			101 102 b acquire px 100 = 1
			110 111 a renew px 100 = 1`,
		"illegal: guarded while another has it": `
			0 1 a acquire px 100 = 1
			101 102 b acquire px 100 = 1
			110 111 a guard = 1`,
		"legal: NOTHELD, and another may have it": `
			0 1 a acquire px 100 = 1
			2 3 a guard = notheld
			4 5 b acquire px 100 = 1`,
		"illegal: one of two holds is left": `
			0 1 a acquire px 100 = 1
			2 3 a acquire px 100 = 2
			4 5 a release = 1
			6 7 b acquire px 100 = 1`,
		"legal: forced": `
			0 1 a acquire px 100 = 1
			2 3 x force = 1
			4 5 b acquire px 100 = 1
			6 7 a guard = 1`,
		"illegal: forced before it was acquired": `
			5 6 a acquire px 100 = 1
			0 4 x force = 0
			7 8 b acquire px 100 = 1`,
		"legal: acquired while it was forced": `
			5 6 a acquire px 100 = 1
			0 6 x force = 1
			7 8 b acquire px 100 = 1`,
		"illegal: forced too late": `
			0 1 a acquire px 100 = 1
			2 3 b acquire px 100 = 1
			4 5 x force = 1`,
		"illegal: the third has it while the second has it": `
			0 1 a acquire px 50 = 1
			51 52 b acquire px 50 = 1
			60 70 c acquire px 50 = 1`,
	})
}

func TestReadWrite(t *testing.T) {
	checkWritten(t, lenient, map[string]string{
		"legal: readers together": `
			0 1 a read px 100 = 1
			2 3 b read px 100 = 1`,
		"illegal: a writer while a reader reads": `
			0 1 a read px 100 = 1
			2 3 b write px 100 = 1`,
		"illegal: a reader while a writer writes": `
			0 1 a write px 100 = 1
			2 3 b read px 100 = 1`,
		"illegal: a plain lock while a reader reads": `
			0 1 a read px 100 = 1
			2 3 b acquire px 100 = 1`,
		"illegal: a writer when one of two readers has released": `
			0 1 a read px 100 = 1
			0 1 b read px 100 = 1
			2 3 a release -read = 0
			4 5 c write px 100 = 1`,
		"legal: a writer when the last reader's lease has ended": `
			0 1 a read px 50 = 1
			0 1 b read px 80 = 1
			60 80 c write px 100 block 50 = 1`,
		"illegal: a writer when the first reader's lease has ended": `
			0 1 a read px 50 = 1
			0 1 b read px 80 = 1
			60 79 c write px 100 block 50 = 1`,
		"legal: a writer also reads, and continues as a reader with others": `
			0 1 a write px 100 = 1
			2 3 a read px 100 = 1
			4 5 a release -write = 0
			6 7 b read px 100 = 1`,
		"illegal: a reader while a writer also reads": `
			0 1 a write px 100 = 1
			2 3 a read px 100 = 1
			4 5 b read px 100 = 1`,
		"illegal: another writer while a former writer still reads": `
			0 1 a write px 100 = 1
			2 3 a read px 100 = 1
			4 5 a release -write = 0
			6 7 b write px 100 = 1`,
		"illegal: an upgrade while another reader reads": `
			0 1 a read px 100 = 1
			2 3 b read px 100 = 1
			4 5 a write px 100 = 1`,
		"legal: the upgrade of a sole reader": `
			0 1 a read px 100 = 1
			4 5 a write px 100 = 1`,
		"illegal: a reader with a reply before the writer's lease has ended, and one with a later reply": `
			0 1 a write px 100 = 1
			50 110 b read px 100 block 60 = 1
			50 90 c read px 100 block 60 = 1`,
		"legal: readers that wait for one writer, in any order": `
			0 1 a write px 100 = 1
			50 110 b read px 100 block 60 = 1
			40 105 c read px 100 block 90 = 1
			60 70 a release -write = 0
			170 200 d write px 100 block 90 = 1`,
		"illegal: a renewal renews both holds": `
			0 1 a write px 100 = 1
			0 1 a read px 100 = 1
			80 81 a renew -both px 100 = 2
			120 121 b read px 100 = 1`,
	})
}

func TestSemaphore(t *testing.T) {
	checkWritten(t, lenient, map[string]string{
		"legal: as many as there are": `
			0 1 a permits limit 2 px 100 = 1
			2 3 b permits limit 2 px 100 = 1`,
		"illegal: one too many": `
			0 1 a permits limit 2 px 100 = 1
			2 3 b permits limit 2 px 100 = 1
			4 5 c permits limit 2 px 100 = 1`,
		"illegal: too many in one request": `
			0 1 a permits limit 3 take 2 px 100 = 2
			2 3 b permits limit 3 take 2 px 100 = 2`,
		"legal: released in part": `
			0 1 a permits limit 3 take 3 px 100 = 3
			2 3 a release -permits take 2 = 1
			4 5 b permits limit 3 take 2 px 100 = 2`,
		"illegal: too few released": `
			0 1 a permits limit 3 take 3 px 100 = 3
			2 3 a release -permits take 1 = 2
			4 5 b permits limit 3 take 2 px 100 = 2`,
		"legal: the shortest lease has ended": `
			0 1 a permits limit 2 px 100 = 1
			0 1 b permits limit 2 px 50 = 1
			51 52 c permits limit 2 px 100 = 1`,
		"illegal: one lease has ended, and two are granted": `
			0 1 a permits limit 2 px 100 = 1
			0 1 b permits limit 2 px 50 = 1
			51 52 c permits limit 2 px 100 = 1
			53 54 d permits limit 2 px 100 = 1`,
		"illegal: an owner's own permits count too": `
			0 1 a permits limit 2 px 100 = 1
			0 1 b permits limit 2 px 100 = 1
			2 3 a permits limit 2 px 100 = 2`,
		"legal: the limit is each request's own": `
			0 1 a permits limit 2 take 2 px 100 = 2
			2 3 b permits limit 3 px 100 = 1`,
	})
}

func TestMultiKey(t *testing.T) {
	checkWritten(t, lenient, map[string]string{
		"legal: keys that differ": `
			0 1 a acquire keys 0,1 px 100 = 2
			2 3 b acquire keys 2 px 100 = 1`,
		"illegal: a key in common": `
			0 1 a acquire keys 0,1 px 100 = 2
			2 3 b acquire keys 1,2 px 100 = 2`,
		"illegal: a plain lock of one of them": `
			0 1 a acquire keys 0,1 px 100 = 2
			2 3 b acquire keys 1 px 100 = 1`,
		"illegal: the keys at different moments": `
			0 1 a acquire keys 0 px 100 = 1
			2 9 b acquire keys 0,1 px 100 block 9 = 2
			3 4 c acquire keys 1 px 100 = 1
			5 6 a release keys 0 = 0`,
		"legal: released together": `
			0 1 a acquire keys 0,1 px 100 = 2
			2 3 a release keys 0,1 = 2
			4 5 b acquire keys 1,2 px 100 = 2`,
		"illegal: one of two holds of each": `
			0 1 a acquire keys 0,1 px 100 = 2
			2 3 a acquire keys 0,1 px 100 = 2
			4 5 a release keys 0,1 = 0
			6 7 b acquire keys 1 px 100 = 1`,
		"legal: the last lease of the keys has ended": `
			0 1 a acquire keys 0,1 px 100 = 2
			2 3 a renew keys 1 px 50 = 1
			53 54 b acquire keys 1 px 100 = 1
			60 100 c acquire keys 0 px 100 block 50 = 1`,
	})
}

func TestModes(t *testing.T) {
	checkWritten(t, lenient, map[string]string{
		"legal: readers of one key, writers of others": `
			0 1 a acquire keys 0:read,1:write px 100 = 2
			2 3 b acquire keys 0:read,2:write px 100 = 2`,
		"illegal: two writers of one key": `
			0 1 a acquire keys 0:read,1:write px 100 = 2
			2 3 b acquire keys 0:read,1:write px 100 = 2`,
		"illegal: a reader while a writer writes": `
			0 1 a acquire keys 0:read,1:write px 100 = 2
			2 3 b acquire keys 0:read,1:read px 100 = 2`,
		"illegal: a writer while a reader reads": `
			0 1 a acquire keys 0:read,1:write px 100 = 2
			2 3 b acquire keys 0:write,2:write px 100 = 2`,
		"illegal: a single reader while a writer writes": `
			0 1 a acquire keys 0:read,1:write px 100 = 2
			2 3 b read keys 1 px 100 = 1`,
		"illegal: a single writer while a reader reads": `
			0 1 a acquire keys 0:read,1:write px 100 = 2
			2 3 b write keys 0 px 100 = 1`,
		"illegal: a single writer had it before": `
			0 1 a write keys 1 px 100 = 1
			2 3 b acquire keys 0:read,1:read px 100 = 2`,
		"legal: what a wait that ended did not acquire": `
			0 1 a acquire keys 0:read,1:write px 100 = 2
			2 9 b acquire keys 0:read,1:read px 100 block 5 = null
			10 11 a release keys 0:read = 0
			12 13 c write keys 0 px 100 = 1`,
		"illegal: granted in part": `
			0 1 a acquire keys 0:read,1:write px 100 = 1`,
		"illegal: the keys at different moments": `
			0 1 a write keys 0 px 100 = 1
			2 9 b acquire keys 0:read,1:read px 100 block 9 = 2
			3 4 c write keys 1 px 100 = 1
			5 6 a release keys 0:write = 0`,
		"legal: the keys at the same moment": `
			0 1 a write keys 0 px 100 = 1
			2 9 b acquire keys 0:read,1:read px 100 block 9 = 2
			3 4 c read keys 1 px 100 = 1
			5 6 a release keys 0:write = 0`,
		"legal: the upgrade of the only reader": `
			0 1 a acquire keys 0:read,1:read px 100 = 2
			2 3 a acquire keys 0:write,2:read px 100 = 2`,
		"illegal: the upgrade while another reader reads": `
			0 1 a acquire keys 0:read,1:read px 100 = 2
			2 3 b read px 100 = 1
			4 5 a acquire keys 0:write,2:read px 100 = 2`,
		"legal: a downgrade, and others read": `
			0 1 a acquire keys 0:write,1:write px 100 = 2
			2 3 a acquire keys 0:read,1:read px 100 = 2
			4 5 a release keys 0:write,1:write = 2
			6 7 b acquire keys 0:read,1:read px 100 = 2`,
		"illegal: a downgrade of one key, and others read another": `
			0 1 a acquire keys 0:write,1:write px 100 = 2
			2 3 a acquire keys 0:read,1:read px 100 = 2
			4 5 a release keys 0:write,1:read = 2
			6 7 b acquire keys 0:read,1:read px 100 = 2`,
		"illegal: a downgrade, and another writes": `
			0 1 a acquire keys 0:write,1:write px 100 = 2
			2 3 a acquire keys 0:read,1:read px 100 = 2
			4 5 a release keys 0:write,1:write = 2
			6 7 b write keys 1 px 100 = 1`,
		"legal: all are renewed": `
			0 1 a acquire keys 0:read,1:write px 100 = 2
			50 51 a renew keys 0:read,1:write px 100 = 2
			120 150 b acquire keys 0:write,1:write px 100 block 40 = 2`,
		"illegal: before the end of the new leases": `
			0 1 a acquire keys 0:read,1:write px 100 = 2
			50 51 a renew keys 0:read,1:write px 100 = 2
			120 149 b acquire keys 0:write,2:write px 100 block 40 = 2`,
		"illegal: one is renewed": `
			0 1 a acquire keys 0:read,1:write px 100 = 2
			50 51 a renew keys 0:read,1:write px 100 = 1`,
		"illegal: renewed while another writes": `
			0 1 a acquire keys 0:read,1:write px 100 = 2
			101 102 b write px 100 = 1
			103 104 a renew keys 0:read,1:write px 100 = 2`,
		"legal: the lease to write has ended, and the one to read is renewed": `
			0 1 a write px 50 = 1
			2 3 a read px 100 = 1
			60 61 a renew -both px 100 = 1
			62 63 b read px 100 = 1`,
		"illegal: another writes, and the lease to read was renewed": `
			0 1 a read px 100 = 1
			60 61 a renew -both px 100 = 1
			120 121 b write px 100 = 1`,
		"legal: lost, and renewed while another reads": `
			0 1 b read px 100 = 1
			2 3 a renew -both px 100 = 1`,
		"illegal: to read is released without a reply, and not to write": `
			0 1 a write px 100 = 1
			2 3 a read px 100 = 1
			4 5 a release -read = unknown
			6 7 b read px 100 = 1`,
	})
	checkWritten(t, strict(), map[string]string{
		"illegal: the release of another mode": `
			0 1 a acquire keys 0:read,1:write px 100 = 2
			2 3 a release keys 0:read,1:read = 2`,
		"illegal: the same, of one key": `
			0 1 a write px 100 = 1
			2 3 a release -read = 0`,
		"legal: the release of another mode is NOTHELD, and nothing has changed": `
			0 1 a acquire keys 0:read,1:write px 100 = 2
			2 3 a release keys 0:read,1:read = notheld
			4 5 a release keys 0:read,1:write = 2`,
		"illegal: it has released one": `
			0 1 a acquire keys 0:read,1:write px 100 = 2
			2 3 a release keys 0:read,1:read = notheld
			4 5 b write px 100 = 1`,
		"legal: one of two holds is left": `
			0 1 a read px 100 = 1
			2 3 a acquire keys 0:read,1:write px 100 = 2
			4 5 a release keys 0:read,1:write = 1
			6 7 b acquire keys 0:read,1:write px 100 = 2
			8 9 a release -read = 0`,
		"illegal: a writer although one of two holds is left": `
			0 1 a read px 100 = 1
			2 3 a acquire keys 0:read,1:write px 100 = 2
			4 5 a release keys 0:read,1:write = 1
			6 7 b acquire keys 0:write,1:write px 100 = 2`,
		"illegal: both are released, and one of two holds is left": `
			0 1 a read px 100 = 1
			2 3 a acquire keys 0:read,1:write px 100 = 2
			4 5 a release keys 0:read,1:write = 2`,
		"legal: ONCE adds no hold of what is held": `
			0 1 a read px 100 = 1
			2 3 a acquire keys 0:read,1:write px 100 once = 2
			4 5 a release keys 0:read,1:write = 2`,
		"illegal: ONCE has added one": `
			0 1 a read px 100 = 1
			2 3 a acquire keys 0:read,1:write px 100 once = 2
			4 5 a release keys 0:read,1:write = 1`,
		"legal: the lease of one has ended before the re-entry": `
			0 1 c read keys 2 px 100 = 1
			0 1 a read px 10 = 1
			12 13 a acquire keys 0:read,1:write px 100 = 2
			14 15 a release keys 0:read,1:write = 2`,
		"illegal: not acquired, and guarded": `
			0 1 b write keys 1 px 100 = 1
			2 3 a acquire keys 0:read,1:write px 100 = null
			4 5 a guard -read = 1`,
		"illegal: NOTHELD, and all are held": `
			0 1 a acquire keys 0:read,1:write px 100 = 2
			2 3 a renew keys 0:read,1:write px 100 = notheld`,
		"illegal: renewed, and one is not held": `
			0 1 a acquire keys 0:read,1:write px 100 = 2
			2 3 a release keys 0:read = 0
			4 5 a renew keys 0:read,1:write px 100 = 2`,
		"legal: NOTHELD, and no lease is renewed": `
			0 1 a acquire keys 0:read,1:write px 50 = 2
			2 3 x force = 1
			4 5 a renew keys 0:read,1:write px 100 = notheld
			51 52 b write keys 1 px 100 = 1`,
	})
}

func TestSessions(t *testing.T) {
	checkWritten(t, lenient, map[string]string{
		"legal: a session that lasted longer than a lease is closed": `
			0 1 a acquire session = 1
			300 301 a acquire px 100 = 2
			302 302 a close = 0
			325 326 b acquire px 100 = 1`,
		"illegal: the server still shows it": `
			0 1 a acquire session = 1
			300 301 b acquire px 100 = 1
			302 303 a guard = 1`,
		"illegal: before lock.default-lease": `
			0 1 a acquire session = 1
			90 99 b acquire px 100 = 1`,
		"legal: the grace has passed": `
			0 1 a acquire session = 1
			10 10 a close = unknown
			20 30 b acquire px 100 block 20 = 1`,
		"illegal: within the grace": `
			0 1 a acquire session = 1
			10 10 a close = unknown
			20 29 b acquire px 100 block 20 = 1`,
		"legal: bound by a request without a reply": `
			0 1 a acquire px 100 = 1
			10 11 a acquire session = unknown
			20 30 b acquire px 100 block 20 = 1`,
		"illegal: before the grace after a request without a reply": `
			0 1 a acquire px 100 = 1
			10 11 a acquire session = unknown
			20 29 b acquire px 100 block 20 = 1`,
		"illegal: renewed after lock.default-lease": `
			0 1 a acquire session = 1
			150 151 a renew px 100 = 1
			200 201 b acquire px 100 = 1`,
		"illegal: no longer bound, with a lease of its own": `
			0 1 a acquire session = 1
			10 10 a close = unknown
			15 16 a renew px 100 = 1
			40 50 b acquire px 100 = 1`,
		"legal: a further hold does not end the binding": `
			0 1 a write session = 1
			2 3 a read px 300 = 1
			10 10 a close = unknown
			30 31 b write px 100 = 1`,
	})
	checkWritten(t, strict(), map[string]string{
		"illegal: the connection is open, and no server has failed": `
			0 1 a acquire session = 1
			500 501 b acquire px 100 = 1`,
		"legal: it was closed": `
			0 1 a acquire session = 1
			400 400 a close = unknown
			500 501 b acquire px 100 = 1`,
	})
}

func TestStrict(t *testing.T) {
	checkWritten(t, strict(), map[string]string{
		"legal: counts": `
			0 1 a acquire px 100 = 1
			2 3 a acquire px 100 = 2
			4 5 a release = 1
			6 7 a release = 0
			8 9 a release = notheld`,
		"illegal: a hold too many": `
			0 1 a acquire px 100 = 1
			2 3 a acquire px 100 = 3`,
		"illegal: a hold too few": `
			0 1 a acquire px 100 = 1
			2 3 a acquire px 100 = 1`,
		"legal: ONCE adds none": `
			0 1 a acquire px 100 = 1
			2 3 a acquire px 100 once = 1`,
		"illegal: ONCE has added one": `
			0 1 a acquire px 100 = 1
			2 3 a acquire px 100 once = 2`,
		"legal: ended, and acquired again": `
			0 1 a acquire px 100 = 1
			101 102 a acquire px 100 = 1`,
		"illegal: lost before its lease has ended": `
			0 1 a acquire px 100 = 1
			50 60 a release = notheld`,
		"illegal: released, and renewed": `
			0 1 a acquire px 100 = 1
			2 3 a release = 0
			4 5 a renew px 100 = 1`,
		"legal: NOTHELD for several keys releases none": `
			0 1 a acquire keys 0,1 px 100 = 2
			2 3 x force keys 1 = 1
			4 5 a release keys 0,1 = notheld
			101 102 b acquire keys 0 px 100 = 1`,
		"illegal: NOTHELD for several keys has released one": `
			0 1 a acquire keys 0,1 px 100 = 2
			2 3 x force keys 1 = 1
			4 5 a release keys 0,1 = notheld
			6 7 b acquire keys 0 px 100 = 1`,
		"legal: the larger of two requests with ONCE": `
			0 1 a permits limit 3 take 2 px 100 = 2
			2 3 a permits limit 3 take 3 once px 100 = 3
			4 5 a permits limit 3 take 1 once px 100 = 3`,
	})
}

// After the last lease of its owner, an operation without a reply makes no difference, and does not keep a history from
// being cut.
func TestOperationsWithoutReplyEnd(t *testing.T) {
	verdict := Locks(written(t, `
		0 1 a acquire px 100 = 1
		2 3 a release = unknown
		200 201 b acquire px 100 = 1`), lenient, 0)
	if verdict.Illegal != nil || verdict.Parts != 2 {
		t.Fatalf("%d parts", verdict.Parts)
	}
}

// A history is cut at quiet points, and the result is the same.
func TestParts(t *testing.T) {
	text := `
		0 1 a acquire px 100 = 1
		2 3 a release = 0
		4 5 b acquire px 100 = 1
		106 107 c acquire px 100 = 1
		108 109 c release = 0
		110 112 d acquire px 50 = 1
		111 200 e acquire px 50 block 200 = 1
		300 301 f acquire px 50 = 1`
	verdict := Locks(written(t, text), lenient, 0)
	if verdict.Illegal != nil || verdict.Parts != 5 {
		t.Fatalf("%d parts", verdict.Parts)
	}
	verdict = Locks(written(t, text+"\n310 311 g acquire px 50 = 1\n320 321 h acquire px 50 = 1"), lenient, 0)
	if n := len(verdict.Illegal); n != 2 {
		t.Fatalf("%d operations are shown", n)
	}
}
