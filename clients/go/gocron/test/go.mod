module lock-so.invalid/lock-so/clients/go/gocron/test

go 1.26.0

require (
	github.com/go-co-op/gocron/v2 v2.21.2
	github.com/go-redsync/redsync/v4 v4.18.1
	github.com/google/uuid v1.6.0
	github.com/redis/go-redis/v9 v9.23.0
	lock-so.invalid/lock-so/clients/go v0.1.0
	lock-so.invalid/lock-so/clients/go/gocron v0.1.0
	lock-so.invalid/lock-so/clients/go/goredis v0.1.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/jonboulle/clockwork v0.5.0 // indirect
	github.com/robfig/cron/v3 v3.0.1 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
)

replace (
	lock-so.invalid/lock-so/clients/go => ../../
	lock-so.invalid/lock-so/clients/go/gocron => ../
	lock-so.invalid/lock-so/clients/go/goredis => ../../goredis
)
