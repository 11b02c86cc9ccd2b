// SPDX-License-Identifier: MIT
package main

import (
	"context"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

type rueidisClient struct {
	locker rueidislock.Locker
}

// One key per lock, as every other peer on one server has; the default takes three.
func openRueidislock(url string) (client, error) {
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   rueidis.ClientOption{InitAddress: []string{strings.TrimPrefix(url, "redis://")}},
		KeyMajority:    1,
		NoLoopTracking: true,
		TryNextAfter:   time.Second,
	})
	return rueidisClient{locker}, err
}

// A try that takes longer than 20 ms counts as failed by default, which on a busy machine happens; and after such a
// failure it may sleep for ever, as no message will come. So tries have a second, and a sleep of more than
// five seconds is begun again.
func (c rueidisClient) take(name string) (func(), error) {
	for {
		ctx, abort := context.WithCancel(context.Background())
		patience := time.AfterFunc(5*time.Second, abort)
		_, cancel, err := c.locker.WithContext(ctx, name)
		if patience.Stop() {
			return cancel, err
		}
		if err == nil {
			cancel()
		}
	}
}
