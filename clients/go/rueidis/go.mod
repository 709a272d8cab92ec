module lockso/rueidis

go 1.24.0

require (
	github.com/redis/rueidis v1.0.60
	lockso v0.0.0
)

require golang.org/x/sys v0.31.0 // indirect

replace lockso => ../
