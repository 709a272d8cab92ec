module lockso

go 1.24.0
