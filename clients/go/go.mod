module lock-so.invalid/lock-so/clients/go

go 1.24.0
