package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	lockso "lock-so.invalid/lock-so/clients/go"
)

// connection is the result of a connect.
type connection struct {
	user    user
	factory factory
	locks   *lockso.Client
}

type runner struct {
	flavour flavour

	mu        sync.Mutex
	clients   map[string]*connection
	acquiring map[string]context.CancelFunc // also those that have ended: one may be granted just before it is cancelled
	holds     map[string]*lockso.Hold       // also those that were released: until the name is used again
	bodies    map[int]chan struct{}         // closed by leave
}

func newRunner(f flavour) *runner {
	return &runner{flavour: f, clients: map[string]*connection{}, acquiring: map[string]context.CancelFunc{},
		holds: map[string]*lockso.Hold{}, bodies: map[int]chan struct{}{}}
}

// begin records what a later request may refer to, and executes the request in the background.
func (r *runner) begin(req request) {
	if req.On == "" {
		req.On = "main"
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch req.Do {
	case "connect":
		go r.finish(req, r.connect)
	case "acquire", "latch_wait", "consume":
		ctx, cancel := context.WithCancel(context.Background())
		r.acquiring[req.As] = cancel
		r.bodies[req.ID] = make(chan struct{})
		do := map[string]func(context.Context, request) (fields, error){
			"acquire": r.acquire, "latch_wait": r.latchWait, "consume": r.consume}[req.Do]
		go r.finish(req, func(req request) (fields, error) { return do(ctx, req) })
	case "within", "reenter":
		r.bodies[req.ID] = make(chan struct{})
		go r.finish(req, map[string]func(request) (fields, error){"within": r.within, "reenter": r.reenter}[req.Do])
	case "cancel":
		cancel := r.acquiring[req.As]
		if cancel == nil {
			answer(req.ID, nil, fmt.Errorf("nothing was requested as %q", req.As))
			return
		}
		cancel()
		answer(req.ID, nil, nil)
	case "leave":
		close(r.bodies[req.Of])
		answer(req.ID, nil, nil)
	default:
		do, found := map[string]func(request) (fields, error){
			"release": r.release, "lost": r.lost, "count": r.count, "storm": r.storm, "ping": r.ping, "handoff": r.handoff,
			"close": r.closeOne, "abandon": r.abandon, "crowd": r.crowd, "short_lived": r.shortLived,
			"latch_set": r.latchSet, "latch_down": r.latchDown, "latch_count": r.latchCount,
			"delay_push": r.delayPush, "delay_cancel": r.delayCancel, "delay_list": r.delayList,
			"locked": r.locked, "info": r.info, "force": r.force, "renew": r.renew, "guard": r.guard,
		}[req.Do]
		if !found {
			answer(req.ID, nil, fmt.Errorf("unknown: %q", req.Do))
			return
		}
		go r.finish(req, do)
	}
}

func (r *runner) finish(req request, do func(request) (fields, error)) {
	with, err := do(req)
	answer(req.ID, with, err)
}

func (r *runner) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, client := range r.clients {
		client.locks.Close()
		client.user.close()
	}
	return nil
}

func (r *runner) client(name string) *connection {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.clients[name]
}

func (r *runner) connect(req request) (fields, error) {
	name := req.As
	if name == "" {
		name = "main"
	}
	made, err := r.make(req)
	if err == nil {
		r.mu.Lock()
		r.clients[name] = made
		r.mu.Unlock()
	}
	return nil, err
}

func (r *runner) make(req request) (*connection, error) {
	user, factory, err := r.flavour(req.To, req.Pool)
	if err != nil {
		return nil, err
	}
	var options []lockso.ClientOption
	if req.ConnectMs != nil {
		options = append(options, lockso.ConnectTimeout(millis(*req.ConnectMs)))
	}
	if req.MaxBlockMs != nil {
		options = append(options, lockso.MaxBlock(millis(*req.MaxBlockMs)))
	}
	locks, err := factory(options...)
	if err != nil {
		return nil, err
	}
	return &connection{user: user, factory: factory, locks: locks}, nil
}

func millis(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// lock makes the lock of a request, of this client. A nil wait has no limit.
func (r *runner) lock(on string, spec lockSpec, wait *int) *lockso.Lock {
	switch spec.Kind {
	case "combine":
		var locks []*lockso.Lock
		for _, member := range spec.Members {
			locks = append(locks, r.lock(member.On, member.Lock, wait))
		}
		return lockso.Combine(locks...)
	case "redlock":
		var clients []*lockso.Client
		var options []lockso.Option
		for _, name := range spec.On {
			clients, options = append(clients, r.client(name).locks), r.client(name).options(spec)
		}
		return lockso.NewRedLock(clients...).Lock(spec.Keys[0], waits(options, wait)...)
	}
	return r.client(on).lock(spec, wait)
}

// waits adds the limit of a wait to options. nil is none.
func waits(options []lockso.Option, wait *int) []lockso.Option {
	if wait != nil {
		options = append(options, lockso.Wait(millis(*wait)))
	}
	return options
}

// lock makes a lock of one client.
func (c *connection) lock(spec lockSpec, wait *int) *lockso.Lock {
	options := waits(c.options(spec), wait)
	if spec.Kind == "multi" && spec.Modes != nil {
		var modes lockso.Modes
		for i, key := range spec.Keys {
			if spec.Modes[i] == "read" {
				modes.Read = append(modes.Read, key)
			} else {
				modes.Write = append(modes.Write, key)
			}
		}
		return c.locks.MultiModes(modes, options...)
	}
	if spec.Kind == "multi" {
		return c.locks.Multi(spec.Keys, options...)
	}
	key := spec.Keys[0]
	switch spec.Kind {
	case "fair":
		return c.locks.Fair(key, options...)
	case "read":
		return c.locks.Read(key, options...)
	case "write":
		return c.locks.Write(key, options...)
	case "semaphore":
		return c.locks.Semaphore(key, *spec.Limit, options...)
	}
	return c.locks.Lock(key, options...)
}

func (c *connection) options(spec lockSpec) []lockso.Option {
	var options []lockso.Option
	add := func(wanted bool, option func() lockso.Option) {
		if wanted {
			options = append(options, option())
		}
	}
	add(spec.LeaseMs != nil, func() lockso.Option { return lockso.Lease(millis(*spec.LeaseMs)) })
	add(spec.Permits != nil, func() lockso.Option { return lockso.Permits(*spec.Permits) })
	add(spec.Session, lockso.Session)
	add(spec.Again, lockso.Reentrant)
	add(spec.Fenced, lockso.Fenced)
	add(spec.Renew != nil && !*spec.Renew, lockso.NoRenew)
	add(len(spec.Replicas) == 2, func() lockso.Option { return lockso.Replicas(spec.Replicas[0], millis(spec.Replicas[1])) })
	return options
}

func (r *runner) acquire(ctx context.Context, req request) (fields, error) {
	hold, err := r.take(ctx, req)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		return nil, err
	}
	r.holds[req.As] = hold
	if req.Lock.Watch != nil && req.Lock.Watch != false {
		lost := hold.Lost()
		go func() {
			<-lost
			say(fields{"event": "lost", "as": req.As})
		}()
	}
	with := fields{"owner": hold.Owner(), "token": token(hold)}
	if holds := hold.Holds(); holds != nil {
		owners := []string{}
		for _, one := range holds {
			owners = append(owners, one.Owner())
		}
		with["owners"] = owners
	}
	return with, nil
}

// take acquires the lock of a request. A wait of 0 is a try.
func (r *runner) take(ctx context.Context, req request) (*lockso.Hold, error) {
	lock := r.lock(req.On, req.Lock, req.WaitMs)
	if req.WaitMs != nil && *req.WaitMs == 0 {
		return lock.TryLock(ctx)
	}
	return limited(lock.Lock(ctx))
}

// limited makes not_acquired another error, other, if it is neither that of a deadline nor of a cancellation.
func limited(hold *lockso.Hold, err error) (*lockso.Hold, error) {
	if errors.Is(err, lockso.ErrNotAcquired) && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
		err = fmt.Errorf("without context.DeadlineExceeded: %v", err)
	}
	return hold, err
}

func token(hold *lockso.Hold) any {
	if hold.Token() == 0 {
		return nil
	}
	return hold.Token()
}

func (r *runner) hold(name string) (*lockso.Hold, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if hold := r.holds[name]; hold != nil {
		return hold, nil
	}
	return nil, fmt.Errorf("nothing is held as %q", name)
}

func (r *runner) release(req request) (fields, error) {
	hold, err := r.hold(req.As)
	if err != nil {
		return nil, err
	}
	return nil, hold.Unlock(context.Background())
}

func (r *runner) lost(req request) (fields, error) {
	hold, err := r.hold(req.As)
	if err != nil {
		return nil, err
	}
	select {
	case <-hold.Lost():
		return fields{"lost": true}, nil
	default:
		return fields{"lost": false}, nil
	}
}

// body is the channel that leave closes.
func (r *runner) body(id int) chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bodies[id]
}

func (r *runner) within(req request) (fields, error) {
	leave := r.body(req.ID)
	lock := r.lock(req.On, req.Lock, req.WaitMs)
	return nil, lock.Do(context.Background(), func(ctx context.Context) error {
		say(fields{"event": "inside", "id": req.ID})
		if req.Stop {
			<-ctx.Done()
		}
		if req.Until {
			<-leave
		}
		if req.Raise {
			return errBody
		}
		return nil
	})
}

func (r *runner) ping(req request) (fields, error) {
	return fields{"pong": true}, r.client(req.On).user.ping(context.Background())
}

func (r *runner) storm(req request) (fields, error) {
	random := rand.New(rand.NewPCG(req.Seed, 0))
	acquired, givenUp := 0, 0
	for range req.Times {
		hold, err := r.gust(req, random)
		switch {
		case err == nil:
			acquired++
			if err := hold.Unlock(context.Background()); err != nil {
				return nil, err
			}
		case errors.Is(err, lockso.ErrNotAcquired):
			givenUp++
		default:
			return nil, err
		}
	}
	return fields{"acquired": acquired, "given_up": givenUp}, nil
}

// gust is one acquisition of a storm. It is given up after a short time.
func (r *runner) gust(req request, random *rand.Rand) (*lockso.Hold, error) {
	if req.Kind == "timeout" {
		wait := 1 + random.IntN(3)
		return limited(r.lock(req.On, req.Lock, &wait).Lock(context.Background()))
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer time.AfterFunc(time.Duration(random.Int64N(int64(3*time.Millisecond))), cancel).Stop()
	return r.lock(req.On, req.Lock, nil).Lock(ctx)
}

func (r *runner) closeOne(req request) (fields, error) {
	locks := r.client(req.On).locks
	if req.TimeoutMs == nil {
		return nil, locks.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), millis(*req.TimeoutMs))
	defer cancel()
	locks.Shutdown(ctx) // returns an error if the time has elapsed
	return nil, nil
}

func (r *runner) abandon(req request) (fields, error) {
	r.mu.Lock()
	delete(r.holds, req.As)
	r.mu.Unlock()
	collect()
	return nil, nil
}

// collect runs the garbage collector, and again for what the first run only found.
func collect() {
	for range 3 {
		runtime.GC()
		time.Sleep(10 * time.Millisecond)
	}
}

func (r *runner) shortLived(req request) (fields, error) {
	user := r.client(req.On)
	for range req.Times {
		locks, err := user.factory()
		if err != nil {
			return nil, err
		}
		one := &connection{locks: locks}
		if err := one.lock(req.Lock, nil).Do(context.Background(), func(context.Context) error { return nil }); err != nil {
			return nil, err
		}
		if req.Close {
			locks.Close()
		}
	}
	collect()
	return nil, nil
}

// crowd starts many tasks at once. Each of them acquires a lock, of its own or the same, and holds it for a while.
func (r *runner) crowd(req request) (fields, error) {
	var done atomic.Int64
	var tasks sync.WaitGroup
	faults := make([]error, req.Tasks)
	for i := range req.Tasks {
		spec := req.Lock
		if req.Own == nil || *req.Own {
			spec.Keys = slices.Clone(spec.Keys)
			for k := range spec.Keys {
				spec.Keys[k] += ":" + strconv.Itoa(i)
			}
		}
		tasks.Go(func() {
			hold, err := r.lock(req.On, spec, nil).Lock(context.Background())
			if err == nil {
				time.Sleep(millis(req.HoldMs))
				err = hold.Unlock(context.Background())
			}
			if faults[i] = err; err == nil {
				done.Add(1)
			}
		})
	}
	tasks.Wait()
	return fields{"done": done.Load()}, errors.Join(faults...)
}
