package rueidis_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	rueidisv1 "github.com/redis/rueidis"

	lockso "lock-so.invalid/lock-so/clients/go"
	"lock-so.invalid/lock-so/clients/go/internal/servertest"
	"lock-so.invalid/lock-so/clients/go/rueidis"
)

func TestMain(m *testing.M) { servertest.Run(m) }

// ConnectTimeout does not limit New: rueidis connects within the time-out of its dialer.
func TestNoServer(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections, and does not reply
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for address, low := range map[string]time.Duration{"127.0.0.1:1": 0, silent.Addr().String(): 900 * time.Millisecond} {
		start := time.Now()
		_, err := rueidis.New(rueidisv1.ClientOption{InitAddress: []string{address}, Dialer: net.Dialer{Timeout: time.Second}})
		if took := time.Since(start); took < low || took > 4*time.Second { // 5 s are the library's default
			t.Errorf("%s: it took %v", address, took)
		}
		if refused := errors.Is(err, syscall.ECONNREFUSED); err == nil || refused != (low == 0) || !strings.HasPrefix(err.Error(), "no connection to "+address+": ") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestDeadlines(t *testing.T) {
	client, err := rueidis.New(rueidisv1.ClientOption{InitAddress: []string{servertest.Address}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	servertest.EndAtDeadlines(t, client)
}

// Many waits and a release at the same time do not block each other.
func TestManyWaitsAtOnce(t *testing.T) {
	client, err := rueidis.New(rueidisv1.ClientOption{InitAddress: []string{servertest.Address}, BlockingPoolSize: 1,
		DisableAutoPipelining: true})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	lock := client.Lock("many")
	first, err := lock.Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	const waits = 50
	done := make(chan error, waits)
	for range waits {
		go func() { done <- lock.Do(ctx, func(context.Context) error { return nil }) }()
	}
	if err := first.Unlock(ctx); err != nil {
		t.Error(err)
	}
	for range waits {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestErrorsOfTheServer(t *testing.T) {
	client, err := rueidis.New(rueidisv1.ClientOption{InitAddress: []string{servertest.Address}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx := context.Background()
	servertest.Server.Val("SET", "refused", "no lock")
	_, err = client.Lock("refused").Lock(ctx)
	hold, held := client.Lock("guards").Lock(ctx)
	if held != nil {
		t.Fatal(held)
	}
	_, guarded := hold.Guard(ctx, "NOSUCH", "guards")
	hold.Unlock(ctx)
	for code, err := range map[string]error{"WRONGTYPE": err, "ERR": guarded} {
		var typed *lockso.Error
		if !errors.Is(err, lockso.ErrRefused) || errors.Is(err, lockso.ErrModuleMissing) || !errors.As(err, &typed) || typed.Code != code ||
			!strings.HasPrefix(err.Error(), fmt.Sprintf("lock %q: %s ", typed.Keys[0], code)) {
			t.Error(err)
		}
	}
}

// rueidis gives up a reply that takes longer than ConnWriteTimeout, unless the command is Blocking(), which build sets.
func TestAWaitOutlastsTheLibrarysTimeOut(t *testing.T) {
	var client *lockso.Client
	servertest.Eventually(t, "a connection", func() (connected bool) { // the time-out also limits its handshake
		var err error
		client, err = rueidis.New(rueidisv1.ClientOption{InitAddress: []string{servertest.Address}, ConnWriteTimeout: time.Second})
		return err == nil
	})
	defer client.Close()
	ctx := context.Background()
	lock := client.Lock("long", lockso.Wait(3*time.Second))
	hold, err := lock.Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	before := servertest.Count(servertest.Server, "commandstats", "cmdstat_lock.acquire:calls")
	if _, err := lock.Lock(ctx); !errors.Is(err, lockso.ErrNotAcquired) {
		t.Error(err)
	}
	if sent := servertest.Count(servertest.Server, "commandstats", "cmdstat_lock.acquire:calls") - before; sent != 1 {
		t.Errorf("sent %d times", sent)
	}
	if err := hold.Unlock(ctx); err != nil {
		t.Error(err)
	}
}
