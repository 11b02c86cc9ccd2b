// SPDX-License-Identifier: MIT
package main

import (
	"context"

	etcd "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

type etcdClient struct {
	session *concurrency.Session
}

// One session serves all locks of a client, as sneck's does: its lease is renewed once for all of them.
func openEtcd(url string) (client, error) {
	c, err := etcd.New(etcd.Config{Endpoints: []string{url}, Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	session, err := concurrency.NewSession(c)
	return etcdClient{session}, err
}

func (c etcdClient) take(name string) (func(), error) {
	mutex := concurrency.NewMutex(c.session, "/"+name)
	if err := mutex.Lock(context.Background()); err != nil {
		return nil, err
	}
	return func() {
		if err := mutex.Unlock(context.Background()); err != nil {
			fail(err)
		}
	}, nil
}
