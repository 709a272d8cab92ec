package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	goredisv9 "github.com/redis/go-redis/v9"
	rueidisv1 "github.com/redis/rueidis"

	lockso "lock-so.invalid/lock-so/clients/go"
	"lock-so.invalid/lock-so/clients/go/goredis"
	"lock-so.invalid/lock-so/clients/go/rueidis"
)

// user is the user's own client, of either library, used in the ordinary way.
type user interface {
	ping(ctx context.Context) error
	get(ctx context.Context, key string) (int, error)
	set(ctx context.Context, key string, value int) error
	push(ctx context.Context, key string) error
	pop(ctx context.Context, key string) error // BLPOP
	info(ctx context.Context) (string, error)  // INFO clients
	close()
}

// factory creates a client for locks on the user's client.
type factory func(options ...lockso.ClientOption) (*lockso.Client, error)

// flavour creates the user's client, and what creates a client for locks on it.
type flavour func(to place, pool int) (user, factory, error)

var flavours = map[string]flavour{"goredis": newGoredis, "rueidis": newRueidis}

func addresses(to place) []string {
	ports := append([]int(nil), to.Ports...)
	if to.Kind == "single" {
		ports = []int{to.Port}
	}
	found := make([]string, len(ports))
	for i, port := range ports {
		found[i] = fmt.Sprintf("127.0.0.1:%d", port)
	}
	return found
}

type goredisUser struct{ goredisv9.UniversalClient }

func newGoredis(to place, pool int) (user, factory, error) {
	at := addresses(to)
	var rdb goredisv9.UniversalClient
	switch to.Kind {
	case "cluster":
		rdb = goredisv9.NewClusterClient(&goredisv9.ClusterOptions{Addrs: at, PoolSize: pool})
	case "sentinel":
		rdb = goredisv9.NewFailoverClient(&goredisv9.FailoverOptions{
			MasterName: to.Master, SentinelAddrs: at, PoolSize: pool,
			MaxRetries: -1, ReadTimeout: time.Second, // as the package's README recommends
		})
	default:
		rdb = goredisv9.NewClient(&goredisv9.Options{Addr: at[0], PoolSize: pool})
	}
	return goredisUser{rdb}, func(options ...lockso.ClientOption) (*lockso.Client, error) {
		return goredis.New(rdb, options...)
	}, nil
}

func (u goredisUser) ping(ctx context.Context) error { return u.Ping(ctx).Err() }

func (u goredisUser) get(ctx context.Context, key string) (int, error) {
	n, err := u.Get(ctx, key).Int()
	if err == goredisv9.Nil {
		return 0, nil
	}
	return n, err
}

func (u goredisUser) set(ctx context.Context, key string, value int) error {
	return u.Set(ctx, key, value, 0).Err()
}

func (u goredisUser) push(ctx context.Context, key string) error {
	return u.RPush(ctx, key, "x").Err()
}

func (u goredisUser) pop(ctx context.Context, key string) error {
	return u.BLPop(ctx, 10*time.Second, key).Err()
}

func (u goredisUser) info(ctx context.Context) (string, error) {
	return u.Info(ctx, "clients").Result()
}

func (u goredisUser) close() { u.Close() }

type rueidisUser struct{ rueidisv1.Client }

func newRueidis(to place, pool int) (user, factory, error) {
	option := rueidisv1.ClientOption{InitAddress: addresses(to), DisableCache: true, BlockingPoolSize: pool}
	if to.Kind == "sentinel" {
		option.Sentinel.MasterSet = to.Master
	}
	client, err := rueidisv1.NewClient(option)
	if err != nil {
		return nil, nil, err
	}
	return rueidisUser{client}, func(options ...lockso.ClientOption) (*lockso.Client, error) {
		return rueidis.New(option, options...)
	}, nil
}

func (u rueidisUser) ping(ctx context.Context) error { return u.Do(ctx, u.B().Ping().Build()).Error() }

func (u rueidisUser) get(ctx context.Context, key string) (int, error) {
	n, err := u.Do(ctx, u.B().Get().Key(key).Build()).AsInt64()
	if rueidisv1.IsRedisNil(err) {
		return 0, nil
	}
	return int(n), err
}

func (u rueidisUser) set(ctx context.Context, key string, value int) error {
	return u.Do(ctx, u.B().Set().Key(key).Value(strconv.Itoa(value)).Build()).Error()
}

func (u rueidisUser) push(ctx context.Context, key string) error {
	return u.Do(ctx, u.B().Rpush().Key(key).Element("x").Build()).Error()
}

func (u rueidisUser) pop(ctx context.Context, key string) error {
	return u.Do(ctx, u.B().Blpop().Key(key).Timeout(10).Build()).Error()
}

func (u rueidisUser) info(ctx context.Context) (string, error) {
	return u.Do(ctx, u.B().Info().Section("clients").Build()).ToString()
}

func (u rueidisUser) close() { u.Close() }

// blocked is the number of blocked clients in the server's INFO.
func blocked(ctx context.Context, u user) (int, error) {
	text, err := u.info(ctx)
	if err != nil {
		return 0, err
	}
	for _, line := range strings.Split(text, "\r\n") {
		if number, found := strings.CutPrefix(line, "blocked_clients:"); found {
			return strconv.Atoi(number)
		}
	}
	return 0, fmt.Errorf("no blocked_clients in %q", text)
}
