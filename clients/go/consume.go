package lockso

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"lock-so.invalid/lock-so/clients/go/internal/transport"
)

// Job is a value that was delivered, for the handler of [DelayedQueue.Consume].
type Job struct {
	Value []byte
	Tries int // 1 when it is handled for the first time
}

// ConsumeOption changes a default of [DelayedQueue.Consume].
type ConsumeOption func(*consumer)

// Timeout is after what time a job is delivered again if its handler has not ended, or its consumer has died: a minute by
// default.
func Timeout(d time.Duration) ConsumeOption {
	return func(c *consumer) {
		c.spec.require(d > 0, "Timeout must be greater than 0, not %v", d)
		c.timeout = d
	}
}

// MaxTries is how often a job is handled at most, 5 times by default, before its value is pushed to the list of failed
// values.
func MaxTries(n int) ConsumeOption {
	return func(c *consumer) {
		c.spec.require(n > 0, "MaxTries must be at least 1, not %d", n)
		c.maxTries = n
	}
}

// Backoff is after what time a job is delivered again if its handler fails: a second by default, and twice as long after
// each further failure.
func Backoff(d time.Duration) ConsumeOption {
	return func(c *consumer) {
		c.spec.require(d > 0, "Backoff must be greater than 0, not %v", d)
		c.backoff = d
	}
}

// consumer takes elements out of a list, one after the other.
//
// An element is moved to the list taken, so that it survives the consumer. Then it is claimed: it becomes pending, under a
// new id, as the timeout of the job, and is removed from taken. If the handler succeeds, this claim is cancelled, otherwise
// its time is changed. What stays in taken has been left by a consumer that died before it could claim it.
type consumer struct {
	queue         *DelayedQueue
	spec          *spec
	wait          *acquisition // of all its waits
	handle        func(context.Context, Job) error
	timeout       time.Duration
	maxTries      int
	backoff       time.Duration
	taken, failed string

	seen   map[string]int // how often each element was in taken at the last look
	looked time.Time      // when that was
}

// Consume calls handle for each element of the list, whether this package or any other client has pushed it, one after the
// other, until ctx ends or the client is closed. For several consumers, call it several times, in any number of programs.
//
// If handle returns an error, the job is delivered again, later each time; after [MaxTries] tries its value is pushed to
// the list {list}:failed. If ctx ends, so does the context of handle; if handle then returns the error of its context, the
// try does not count. A job may be handled twice: if handle takes longer than [Timeout], if the program dies when handle has
// returned and the server does not know that yet, or if it dies while it takes the job. If handle panics, so does Consume,
// and the job is delivered again after Timeout.
//
// The error wraps that of ctx, or is [ErrClosed], [ErrRefused] if the list is not a list or the user may not use it,
// [ErrConnection] if no connection ever succeeded, or [ErrOption]. Outages, failures and late jobs are logged.
func (q *DelayedQueue) Consume(ctx context.Context, handle func(ctx context.Context, job Job) error, options ...ConsumeOption) error {
	list := q.spec.keys[0]
	s := *q.spec
	s.maxBlock = min(time.Second, q.client.core.maxBlock) // so that it looks for what others have left
	c := &consumer{queue: q, spec: &s, handle: handle, timeout: time.Minute, maxTries: 5, backoff: time.Second,
		taken: beside(list, ":taken"), failed: beside(list, ":failed")}
	s.blocking = func(block time.Duration) transport.Command {
		seconds := strconv.FormatFloat(block.Seconds(), 'f', -1, 64)
		return transport.Command{Args: []string{"BLMOVE", list, c.taken, "LEFT", "RIGHT", seconds}, First: 1, Count: 2, Waits: true}
	}
	for _, option := range options {
		option(c)
	}
	a, err := newAcquisition(ctx, q.client.core, &s)
	if err != nil {
		return err
	}
	c.wait, a.before = a, c.sweep
	defer a.client.leave(a, nil)
	defer a.cancel(nil)
	for err == nil {
		err = c.next()
	}
	return err
}

// beside is the name of a list in the same slot as this one.
func beside(list, suffix string) string {
	if hashTag(list) != "" {
		return list + suffix
	}
	return "{" + list + "}" + suffix
}

// next waits for an element and handles it. Its error ends the consumer.
func (c *consumer) next() error {
	a := c.wait
	if a.ctx.Err() != nil {
		return c.stopped()
	}
	a.limit(time.Now(), noLimit)
	a.wait, a.limited, a.tries = noLimit, false, 0 // the end of its context stops it, also at a deadline
	g, err := a.run()
	if err != nil {
		return c.trouble(err)
	}
	g.conn.Keep()
	a.cause, a.warned = nil, false
	element, _ := g.reply.(string)
	if a.ctx.Err() != nil { // it was taken at the last moment
		ctx, cancel := c.within(closeTimeout)
		defer cancel()
		tries, _ := parse(element)
		c.claim(ctx, element, tries, 0)
		return c.stopped()
	}
	return c.work(element)
}

// shortestPause is how long the consumer waits at least after an error, so that a short Backoff is no busy loop.
const shortestPause = 100 * time.Millisecond

// trouble returns an error that ends the consumer. Any other one is logged, and followed by a pause.
func (c *consumer) trouble(err error) error {
	if c.wait.ctx.Err() != nil {
		return c.stopped()
	}
	if typed := (*Error)(nil); !errors.As(err, &typed) {
		err = c.spec.wrap(err, c.wait.client.backend.Address(c.taken))
	}
	if fatal(err) || codeOf(err) == "" && !c.wait.client.connected.Load() {
		return err
	}
	pause := max(c.backoff, shortestPause)
	c.warn("it waits for %v: %v", pause, err)
	select {
	case <-time.After(pause):
		return nil
	case <-c.wait.ctx.Done():
		return c.stopped()
	}
}

// fatal returns whether the server will reply so again: the key is no list, the names of the lists beside it are in other
// slots, the user has no access, or the module is not loaded.
func fatal(err error) bool {
	switch codeOf(err) {
	case "WRONGTYPE", "CROSSSLOT", "NOPERM", "NOAUTH", "WRONGPASS":
		return true
	}
	return errors.Is(err, ErrModuleMissing)
}

func (c *consumer) stopped() error {
	ctx := c.wait.ctx
	if context.Cause(ctx) == ErrClosed {
		return c.spec.closed()
	}
	return c.spec.fail(c.spec.String()+": the consumer has ended: "+context.Cause(ctx).Error(), ctx.Err(), context.Cause(ctx))
}

func (c *consumer) warn(format string, values ...any) {
	c.wait.client.warn(c.spec.String() + ": " + fmt.Sprintf(format, values...))
}

// within is the context of commands, for this time, and at most two seconds longer than the consumer.
func (c *consumer) within(d time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.wait.ctx), d)
	stop := context.AfterFunc(c.wait.ctx, func() { time.AfterFunc(closeTimeout, cancel) })
	return ctx, func() {
		stop()
		cancel()
	}
}

// parse splits an element into the number of tries that were begun, and the value.
func parse(element string) (tries int, value string) {
	found := stored.FindStringSubmatch(element)
	if found == nil {
		return 0, element
	}
	tries, _ = strconv.Atoi(found[1]) // the largest int if it is larger; one more must be an int, too
	return min(tries, math.MaxInt32-1), element[len(found[0]):]
}

// pend makes a value pending under this id, in place of what is pending under it.
func (c *consumer) pend(ctx context.Context, id string, tries int, value string, delay time.Duration) error {
	_, _, err := c.wait.client.call(ctx, c.queue.pushCommand(id, fmt.Sprintf("lock-so:%d:%s", tries, value), delay))
	return err
}

// claim makes an element of taken pending, and removes it there. In this order, a death in between delivers it twice, and
// does not lose it. The id is "" if another consumer has removed it.
//
// The removal is sent once: after a lost reply, a second one could remove an equal element that another consumer has just
// taken, and that one would drop its claim. An element that was not removed is delivered twice.
func (c *consumer) claim(ctx context.Context, element string, tries int, delay time.Duration) (id string, err error) {
	id = "claim-" + randomHex()
	_, value := parse(element)
	if err := c.pend(ctx, id, tries, value, delay); err != nil {
		return "", err
	}
	remove := onKey("LREM", c.taken, "1", element)
	remove.Once = true
	reply, _, err := c.wait.client.call(ctx, remove)
	switch {
	case lost(err):
		return id, nil
	case err == nil && reply == int64(0):
		_, err = c.drop(ctx, id)
		id = ""
	}
	return id, err
}

// drop cancels a claim. It returns false if it had timed out already.
func (c *consumer) drop(ctx context.Context, id string) (bool, error) {
	reply, resent, err := c.wait.client.call(ctx, c.queue.command("DELAY.CANCEL", id))
	return reply == int64(1) || resent, err
}

// work claims an element, calls the handler, and settles the job.
func (c *consumer) work(element string) error {
	before, value := parse(element)
	tries, ends := before+1, time.Now().Add(c.timeout)
	ctx, cancel := c.within(c.timeout)
	defer cancel()
	id, err := c.claim(ctx, element, tries, c.timeout)
	if err != nil || id == "" {
		if err != nil {
			err = c.trouble(err)
		}
		return err
	}
	if tries > c.maxTries {
		if _, _, err = c.wait.client.call(ctx, onKey("RPUSH", c.failed, value)); err == nil {
			_, err = c.drop(ctx, id)
		}
		if err == nil {
			c.warn("a job was tried %d times: its value is in %q now", before, c.failed)
		}
		return c.settled(err)
	}
	failure := c.handle(c.wait.ctx, Job{Value: []byte(value), Tries: tries})
	settling, done := c.within(max(time.Until(ends), closeTimeout)) // ctx has ended if the handler needed long after a stop
	defer done()
	switch stopped := c.wait.ctx.Err(); {
	case failure == nil:
		var dropped bool
		if dropped, err = c.drop(settling, id); err == nil && !dropped {
			c.warn("a job took longer than its timeout of %v, and will run again", c.timeout)
		}
	case !time.Now().Before(ends): // its timeout has delivered it already
		c.warn("a job failed after its timeout of %v, try %d of %d: %v", c.timeout, tries, c.maxTries, failure)
	case stopped != nil && (errors.Is(failure, stopped) || errors.Is(failure, context.Cause(c.wait.ctx))):
		err = c.pend(settling, id, before, value, 0)
	default:
		c.warn("a job failed, try %d of %d: %v", tries, c.maxTries, failure)
		err = c.pend(settling, id, tries, value, longer(c.backoff, before))
	}
	return c.settled(err)
}

// settled logs that the end of a job could not be recorded, and returns the error if it ends the consumer.
func (c *consumer) settled(err error) error {
	if err == nil {
		return nil
	}
	c.warn("the end of a job could not be recorded, and its timeout will deliver it again: %v", err)
	if err = c.spec.wrap(err, c.wait.client.backend.Address(c.taken)); fatal(err) {
		return err
	}
	return nil
}

// longer doubles a time n times, up to a year.
func longer(d time.Duration, n int) time.Duration {
	for ; n > 0 && d < 365*day; n-- {
		d *= 2
	}
	return d
}

// sweep looks once a second for elements that were in taken already a second before. Their consumers have died, so it
// gives them back, without a try, which was not begun.
func (c *consumer) sweep() error {
	if time.Since(c.looked) < time.Second {
		return nil
	}
	ctx, cancel := c.within(closeTimeout)
	defer cancel()
	reply, _, err := c.wait.client.call(ctx, onKey("LRANGE", c.taken, "0", "-1"))
	if err != nil {
		if passing(err) {
			return nil // the blocking call will notice it
		}
		return c.spec.wrap(err, c.wait.client.backend.Address(c.taken))
	}
	before := c.seen
	c.seen, c.looked = map[string]int{}, time.Now()
	elements, _ := reply.([]any)
	for _, element := range elements {
		element, _ := element.(string)
		if before[element] == 0 {
			c.seen[element]++
			continue
		}
		before[element]--
		tries, _ := parse(element)
		if _, err := c.claim(ctx, element, tries, 0); err != nil {
			return c.spec.wrap(err, c.wait.client.backend.Address(c.taken))
		}
	}
	return nil
}
