package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/jackc/pgx/v5"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// ---- etcd: concurrency.Mutex ----

type etcdWorker struct {
	session *concurrency.Session
	mutex   *concurrency.Mutex
}

// Each waiter needs a session of its own: a mutex's position in the queue is named after the session.
func etcd(port string, _ int) maker {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{host + port}, DialTimeout: 10 * time.Second})
	check(err)
	return func(string) worker {
		session, err := concurrency.NewSession(client)
		check(err)
		return &etcdWorker{session: session}
	}
}

func (w *etcdWorker) acquire(name string) {
	w.mutex = concurrency.NewMutex(w.session, "/"+name)
	check(w.mutex.Lock(ctx))
}

func (w *etcdWorker) acquireWithin(name string, limit time.Duration) bool {
	until, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	w.mutex = concurrency.NewMutex(w.session, "/"+name)
	err := w.mutex.Lock(until)
	if errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	check(err)
	return true
}

func (w *etcdWorker) release(string) { check(w.mutex.Unlock(ctx)) }

// ---- PostgreSQL: advisory locks of a session ----

// References to all connections: a connection without references would be closed, and its bytes would no longer be
// counted.
var connections []*pgx.Conn

type postgresWorker struct {
	connection *pgx.Conn
	suffix     string
}

func postgres(port string, _ int) maker {
	return func(kind string) worker {
		connection, err := pgx.Connect(ctx, "host=127.0.0.1 port="+port+" user=field dbname=postgres sslmode=disable")
		check(err)
		connections = append(connections, connection)
		suffix := ""
		if kind == "read" {
			suffix = "_shared"
		}
		return &postgresWorker{connection: connection, suffix: suffix}
	}
}

// The name of an advisory lock is a number.
func numberOf(name string) int64 {
	hash := fnv.New64a()
	_, _ = fmt.Fprint(hash, name)
	return int64(hash.Sum64())
}

func (w *postgresWorker) acquire(name string) {
	_, err := w.connection.Exec(ctx, "SELECT pg_advisory_lock"+w.suffix+"($1)", numberOf(name))
	check(err)
}

func (w *postgresWorker) acquireWithin(name string, limit time.Duration) bool {
	_, err := w.connection.Exec(ctx, fmt.Sprintf("SET lock_timeout = %d", limit.Milliseconds()))
	check(err)
	_, err = w.connection.Exec(ctx, "SELECT pg_advisory_lock($1)", numberOf(name))
	return err == nil
}

func (w *postgresWorker) release(name string) {
	_, err := w.connection.Exec(ctx, "SELECT pg_advisory_unlock"+w.suffix+"($1)", numberOf(name))
	check(err)
}
