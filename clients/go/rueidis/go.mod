module lock-so.invalid/lock-so/clients/go/rueidis

go 1.24.0

require (
	github.com/redis/rueidis v1.0.60
	lock-so.invalid/lock-so/clients/go v0.1.0
)

require golang.org/x/sys v0.31.0 // indirect

replace lock-so.invalid/lock-so/clients/go => ../
