package lockso

import (
	"context"
	"testing"
	"time"

	"lock-so.invalid/lock-so/clients/go/internal/transport"
)

// nothing replies at once, so that a benchmark measures the package alone.
type nothing struct{}

func (nothing) Do(context.Context, transport.Command) (any, error) { return int64(0), nil }
func (nothing) Conn(context.Context, time.Duration, string, string) (transport.Conn, error) {
	return nothingConn{}, nil
}
func (nothing) Server() (string, bool) { return "", false }
func (nothing) Address(string) string  { return "" }
func (nothing) Close() error           { return nil }

type nothingConn struct{}

func (nothingConn) Do(context.Context, transport.Command) (any, error) { return int64(1), nil }
func (nothingConn) Close()                                             {}
func (nothingConn) Keep()                                              {}
func (nothingConn) Number() int64                                      { return 0 }

func BenchmarkLockAndUnlock(b *testing.B) {
	client, _ := New(nothing{}, false)
	defer client.Close()
	lock := client.Lock("key")
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		hold, err := lock.Lock(ctx)
		if err != nil {
			b.Fatal(err)
		}
		if err := hold.Unlock(ctx); err != nil {
			b.Fatal(err)
		}
	}
}
