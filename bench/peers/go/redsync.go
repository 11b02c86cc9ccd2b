// SPDX-License-Identifier: MIT
package main

import (
	"math"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

type redsyncClient struct {
	redsync *redsync.Redsync
}

func openRedsync(url string) (client, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	return redsyncClient{redsync.New(goredis.NewPool(redis.NewClient(options)))}, nil
}

// The default gives up after 32 tries, which is no lock that waits.
func (c redsyncClient) take(name string) (func(), error) {
	mutex := c.redsync.NewMutex(name, redsync.WithExpiry(30*time.Second), redsync.WithTries(math.MaxInt32))
	if err := mutex.Lock(); err != nil {
		return nil, err
	}
	return func() {
		if ok, err := mutex.Unlock(); !ok || err != nil {
			fail(err)
		}
	}, nil
}
