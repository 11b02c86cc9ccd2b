# SPDX-License-Identifier: MIT
"""The driver of the Python peers: reads requests, answers each with a line of JSON (see ../README.md)."""
import argparse
import importlib.metadata
import json
import platform
import sys
import threading
import time

import redis

LEASE_S = 30


class RedisPy:
    """redis-py's own Lock. Without `timeout` it would stay for ever if the program died."""
    package = "redis"

    def __init__(self, url):
        self.redis = redis.Redis.from_url(url)
        self.redis.ping()

    def take(self, name):
        lock = self.redis.lock(name, timeout=LEASE_S)
        lock.acquire()
        return lock.release


class PythonRedisLock:
    package = "python-redis-lock"

    def __init__(self, url):
        import redis_lock
        self.new = redis_lock.Lock
        self.redis = redis.Redis.from_url(url)
        self.redis.ping()

    def take(self, name):
        lock = self.new(self.redis, name, expire=LEASE_S)
        lock.acquire()
        return lock.release


PEERS = {"redis-py": RedisPy, "python-redis-lock": PythonRedisLock}
now = time.monotonic_ns


def sleep_ns(ns):
    if ns > 0:
        time.sleep(ns / 1e9)


class Request(dict):
    def number(self, key, fallback):
        return int(self.get(key, fallback))


class Driver:
    def __init__(self, peer, url):
        self.open, self.url = PEERS[peer], url
        self.clients, self.held = [], []

    def client(self, i):
        while len(self.clients) <= i:
            self.clients.append(self.open(self.url))
        return self.clients[i]

    def pair(self, request):
        client, name = self.client(0), request.get("name", "pair")
        n, end = request.number("n", 1000), now() + request.number("ms", 60000) * 1000000
        took = []
        while len(took) < n and now() < end:
            start = now()
            client.take(name)()
            took.append(now() - start)
        return {"ns": took}

    def threads(self, request):
        client, n = self.client(0), request.number("threads", 1)
        barrier, counts, stop = threading.Barrier(n + 1), [0] * n, threading.Event()

        def work(i):
            name = "%s/%d" % (request.get("name", "threads"), i)
            client.take(name)()
            barrier.wait()
            while not stop.is_set():
                client.take(name)()
                counts[i] += 1

        threads = [threading.Thread(target=work, args=(i,)) for i in range(n)]
        for thread in threads:
            thread.start()
        barrier.wait()
        began = now()
        time.sleep(request.number("ms", 1000) / 1e3)
        stop.set()
        for thread in threads:
            thread.join()
        return {"pairs": sum(counts), "ns": now() - began}

    def contend(self, request):
        n, found = request.number("clients", 1), {}

        def work(i, client):
            found[i] = contend_alone(client, request)

        threads = [threading.Thread(target=work, args=(i, self.client(i))) for i in range(1, n)]
        for thread in threads:
            thread.start()
        work(0, self.client(0))
        for thread in threads:
            thread.join()
        return {"contenders": [found[i] for i in range(n)]}

    def hold(self, request):
        n, client = request.number("n", 1), self.client(0)
        self.held = [client.take("%s/%d" % (request.get("name", "hold"), i)) for i in range(n)]
        return {"held": n}

    def drop(self, _):
        for give in self.held:
            give()
        self.held = []
        return {}

    def answer(self, line):
        word, *pairs = line.split()
        request = Request(pair.split("=", 1) for pair in pairs)
        if word not in ("pair", "threads", "contend", "hold", "drop") or request.get("mode", "write") != "write":
            return {"unsupported": True}
        return getattr(self, word)(request)


def contend_alone(client, request):
    n, name = request.number("n", 100), request.get("name", "contend")
    hold, gap = request.number("hold_us", 0) * 1000, request.number("gap_us", 0) * 1000
    at, limit = request.number("at", now()), request.number("limit_ms", 10000) * 1000000
    turns = []
    sleep_ns(at - now())
    while n > 0 and now() - at < limit:
        asked = now() - at
        give = client.take(name)
        got = now() - at
        sleep_ns(hold)
        turns += [asked, got, now() - at]
        give()
        sleep_ns(gap)
        n -= 1
    return {"finish": now() - at, "turns": turns}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--peer", choices=PEERS, required=True)
    parser.add_argument("--url", required=True)
    parser.add_argument("--clients")
    options = parser.parse_args()
    driver = Driver(options.peer, options.url)
    driver.client(0)
    version = importlib.metadata.version(PEERS[options.peer].package)
    print(json.dumps({"version": "%s, Python %s" % (version, platform.python_version())}), flush=True)
    for line in sys.stdin:
        print(json.dumps(driver.answer(line), separators=(",", ":")), flush=True)


main()
