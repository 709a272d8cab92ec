package test

import (
	"context"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/go-redsync/redsync/v4"
	redsyncgoredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// redsyncLocker does what gocron's own locker for Redis does, which is a mutex of redsync for each run.
type redsyncLocker struct {
	redsync *redsync.Redsync
	options []redsync.Option
}

func newRedsyncLocker(rdb redis.UniversalClient, expiry time.Duration, options ...redsync.Option) *redsyncLocker {
	if expiry > 0 {
		options = append(options, redsync.WithExpiry(expiry))
	}
	return &redsyncLocker{redsync.New(redsyncgoredis.NewPool(rdb)), options}
}

func (l *redsyncLocker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	mutex := l.redsync.NewMutex(key, l.options...)
	if err := mutex.LockContext(ctx); err != nil {
		return nil, err
	}
	return redsyncLock{mutex}, nil
}

type redsyncLock struct{ mutex *redsync.Mutex }

func (l redsyncLock) Unlock(ctx context.Context) error {
	_, err := l.mutex.UnlockContext(ctx)
	return err
}
