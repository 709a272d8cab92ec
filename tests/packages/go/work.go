package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/redis/go-redis/v9"
	client "github.com/redis/rueidis"

	lockso "lock-so.invalid/lock-so/clients/go"
	"lock-so.invalid/lock-so/clients/go/goredis"
	"lock-so.invalid/lock-so/clients/go/rueidis"
)

func main() {
	options, err := redis.ParseURL(os.Getenv("REDIS_URL"))
	if err != nil {
		log.Fatal(err)
	}
	work(goredis.New(redis.NewClient(options)))
	work(rueidis.New(client.MustParseURL(os.Getenv("REDIS_URL"))))
}

func work(client *lockso.Client, err error) {
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	err = client.Lock("report").Do(context.Background(), func(context.Context) error {
		fmt.Println("working")
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}
