module lock-so.invalid/lock-so/clients/go/conformance

go 1.26.0

require (
	github.com/redis/go-redis/v9 v9.23.0
	github.com/redis/rueidis v1.0.79
	lock-so.invalid/lock-so/clients/go v0.1.0
	lock-so.invalid/lock-so/clients/go/goredis v0.1.0
	lock-so.invalid/lock-so/clients/go/rueidis v0.1.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
)

replace (
	lock-so.invalid/lock-so/clients/go => ../
	lock-so.invalid/lock-so/clients/go/goredis => ../goredis
	lock-so.invalid/lock-so/clients/go/rueidis => ../rueidis
)
