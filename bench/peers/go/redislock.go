// SPDX-License-Identifier: MIT
package main

import (
	"context"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

type redislockClient struct {
	locker *redislock.Client
}

func openRedislock(url string) (client, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	return redislockClient{redislock.New(redis.NewClient(options))}, nil
}

// It does not wait unless it is told how; this strategy is that of its examples.
func (c redislockClient) take(name string) (func(), error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	lock, err := c.locker.Obtain(ctx, name, 30*time.Second,
		&redislock.Options{RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond)})
	if err != nil {
		return nil, err
	}
	return func() {
		if err := lock.Release(context.Background()); err != nil {
			fail(err)
		}
	}, nil
}
