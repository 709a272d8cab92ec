module lockso/conformance

go 1.26.0

require (
	github.com/redis/go-redis/v9 v9.23.0
	github.com/redis/rueidis v1.0.79
	lockso v0.0.0
	lockso/goredis v0.0.0
	lockso/rueidis v0.0.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
)

replace (
	lockso => ../
	lockso/goredis => ../goredis
	lockso/rueidis => ../rueidis
)
