# SPDX-License-Identifier: MIT
"""Who takes part: sneck, the limits, and the peers with their drivers in bench/peers/.

A peer's language has a directory there with an `install` script that fetches the newest version from its own registry
into the cache, and a driver that speaks the protocol. One that cannot be installed is named as missing, with the
reason."""
import os
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
PEERS = os.path.join(HERE, "..", "peers")
LOCK = {"pair", "threads", "contend", "hold"}


class Peer:
    def __init__(self, name, title, language, serves, settings, fair=False, most_processes=64, warm_ms=500,
                 server="redis", limit=False):
        self.name, self.title, self.language = name, title, language
        self.serves, self.settings, self.fair = serves, settings, fair
        self.most_processes = most_processes  # of contenders; more of them are clients of one process
        self.warm_ms = warm_ms  # before the first figure; a JIT needs longer
        self.server, self.limit = server, limit

    @property
    def jit(self):
        return self.language == "java"

    def key(self, what):
        """A name for this peer alone: on the server one peer's key would be another's error."""
        return "%s-%s" % (what, self.name)

    def processes(self, contenders):
        return min(contenders, self.most_processes)


JVM = {"language": "java", "most_processes": 8, "warm_ms": 5000}
NODE = {"language": "node", "most_processes": 8, "warm_ms": 1000}

ALL = [
    Peer("sneck", "sneck", "c", LOCK | {"reentry", "linger", "crowd", "writer", "renewal", "queue"},
         "defaults: lease 30 s, renewed; fair", fair=True),
    Peer("ping", "raw PING", "c", {"pair", "pause"}, "hiredis, blocking", limit=True),
    Peer("scripts", "two raw EVALSHA", "c", {"pair", "threads"}, "sneck's scripts over blocking hiredis; a connection per "
         "thread", limit=True),
    Peer("setnx", "SET NX PX + compare-and-delete", "c", {"pair", "threads"}, "blocking hiredis; a connection per thread",
         limit=True),
    Peer("flock", "flock(2), one machine", "c", {"pair", "threads", "contend"}, "the kernel's lock on a file",
         server="directory", limit=True),
    Peer("rueidislock", "rueidislock", "go", LOCK, "KeyMajority 1, NoLoopTracking, TryNextAfter 1 s; a wait of 5 s is "
         "begun again (it may sleep for ever after a slow try)"),
    Peer("redsync", "redsync", "go", LOCK, "go-redis; tries without end, else defaults (polls every 50 to 250 ms)"),
    Peer("redislock", "bsm/redislock", "go", LOCK, "go-redis; TTL 30 s, LinearBackoff 100 ms"),
    Peer("etcd", "etcd mutex", "go", LOCK | {"renewal"}, "one session per client; data in memory", fair=True,
         server="etcd"),
    Peer("redis-py", "redis-py Lock", "python", LOCK, "timeout 30 s, else defaults (polls every 100 ms)"),
    Peer("python-redis-lock", "python-redis-lock", "python", LOCK, "expire 30 s, no renewal"),
    Peer("redisson", "Redisson RLock", serves=LOCK | {"reentry", "renewal"}, settings="defaults: lease 30 s, renewed; "
         "heap of 512 MB", **JVM),
    Peer("redisson-fair", "Redisson RFairLock", serves=LOCK | {"queue"}, settings="the same", fair=True, **JVM),
    Peer("redisson-rw", "Redisson RReadWriteLock", serves=LOCK | {"reentry", "crowd", "writer"}, settings="the same; "
         "its write lock where nothing else is said", **JVM),
    Peer("rslock", "rslock", "rust", LOCK, "ttl 30 s, else defaults (polls every 0 to 200 ms)"),
    Peer("redlock", "redlock", serves=LOCK, settings="ttl 30 s; tries without end, else defaults (polls every 100 to "
         "300 ms)", **NODE),
    Peer("redis-semaphore", "redis-semaphore Mutex", serves=LOCK, settings="lockTimeout 30 s, no limit to waiting, else "
         "defaults (polls every 10 ms)", **NODE),
]
BY_NAME = {peer.name: peer for peer in ALL}


class Installed:
    """The programs of this run: what is there, and why the rest is not."""

    def __init__(self, build, cache, refresh=False):
        self.build, self.cache, self.refresh = build, cache, refresh
        self.languages = {}  # language: None, or why it is missing

    def install(self, language):
        if language in self.languages:
            return self.languages[language]
        directory = os.path.join(self.cache, language)
        os.makedirs(directory, exist_ok=True)
        log = os.path.join(directory, "install.log")
        env = {**os.environ, "BENCH_REFRESH": "yes" if self.refresh else ""}
        with open(log, "wb") as out:
            status = subprocess.run([os.path.join(PEERS, language, "install"), directory], stdin=subprocess.DEVNULL,
                                    stdout=out, stderr=out, env=env).returncode
        reason = None
        if status != 0:
            with open(log, encoding="utf-8", errors="replace") as file:
                reason = (file.read().strip().splitlines() or ["install failed"])[-1][:200]
        self.languages[language] = reason
        return reason

    def missing(self, peer):
        """None, or why this peer is not there."""
        reason = None if peer.language == "c" else self.install(peer.language)
        if not reason and peer.server == "etcd":
            reason = self.install("etcd")
        return reason

    def command(self, peer, url, clients):
        tail = ["--peer", peer.name, "--url", url, "--clients", str(clients)]
        directory = os.path.join(self.cache, peer.language)
        if peer.language == "c":
            return [os.path.join(self.build, "bench", "sneck_bench_driver")] + tail, None
        if peer.language == "python":
            return [os.path.join(directory, "venv", "bin", "python"), os.path.join(PEERS, "python", "driver.py")] + tail, None
        if peer.language == "node":
            return ["node", os.path.join(PEERS, "node", "driver.js")] + tail, \
                {"NODE_PATH": os.path.join(directory, "node_modules")}
        return [os.path.join(directory, "driver")] + tail, None  # go, rust, java: the install script made it

    def etcd_binary(self, name):
        return os.path.join(self.cache, "etcd", "root", "usr", "bin", name)
