# SPDX-License-Identifier: MIT
"""One run: its servers, who takes part, and what was found. The parts (apart, together, standing, commands) measure;
this holds what they share.

A peer that fails in one part stays out of that part and is named; the run goes on."""
import contextlib
import os
import shutil
import tempfile

from . import peers
from .drivers import Driver, DriverFailed, Fleet, Unsupported
from .servers import EtcdServer, RedisServer


class Run:
    def __init__(self, installed, names, schedule, build):
        self.installed, self.schedule, self.build = installed, schedule, build
        self.found = {}     # part: its figures
        self.missing = {}   # peer: why
        self.failed = []    # {"part", "peer", "reason"}
        self.versions = {}  # peer: what its driver says
        self.peers = []
        for name in names:
            peer = peers.BY_NAME[name]
            schedule.say("looking for " + name)
            reason = installed.missing(peer)
            if reason:
                self.missing[name] = reason
            else:
                self.peers.append(peer)
        self.redis = RedisServer()
        self.directory = tempfile.mkdtemp(prefix="sneck-bench-flock-")
        self.etcd = None
        if any(peer.server == "etcd" for peer in self.peers):
            self.etcd = EtcdServer(installed.etcd_binary("etcd"))

    def stop(self):
        self.redis.stop()
        if self.etcd:
            self.etcd.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def serving(self, what):
        return [peer for peer in self.peers if what in peer.serves]

    def server_of(self, peer):
        """Whose processor time a lock of this peer costs; None: nobody's."""
        return {"redis": self.redis, "etcd": self.etcd}.get(peer.server)

    def command(self, peer, clients=1):
        url = self.directory if peer.server == "directory" else self.server_of(peer).url
        return self.installed.command(peer, url, clients)

    def open(self, peer):
        driver = Driver(*self.command(peer)).ready()
        self.versions[peer.name] = driver.hello["version"]
        return driver

    def fail(self, part, peer, reason):
        self.failed.append({"part": part, "peer": peer.name, "reason": str(reason)})
        self.schedule.say("%s fails in %s: %s" % (peer.name, part, reason))

    @contextlib.contextmanager
    def drivers(self, part, what):
        """One driver for each peer that serves `what`. Those that fail drop out."""
        opened = {}
        try:
            for peer in self.serving(what):
                self.schedule.say("%s: starting %s" % (part, peer.name))
                with self.attempt(part, peer, opened):
                    opened[peer] = self.open(peer)
            yield opened
        finally:
            for driver in opened.values():
                driver.stop()
            self.redis.flush()

    @contextlib.contextmanager
    def fleets(self, part, what, contenders):
        opened = {}
        try:
            for peer in self.serving(what):
                self.schedule.say("%s: starting %d processes of %s" % (part, peer.processes(contenders), peer.name))
                with self.attempt(part, peer, opened):
                    processes = peer.processes(contenders)
                    opened[peer] = Fleet([self.command(peer, contenders // processes)] * processes)
                    self.versions[peer.name] = opened[peer].drivers[0].hello["version"]
            yield opened
        finally:
            for fleet in opened.values():
                fleet.stop()
            self.redis.flush()

    @contextlib.contextmanager
    def attempt(self, part, peer, opened):
        """What fails inside takes the peer out of `opened`, and out of this part."""
        try:
            yield
        except Unsupported:
            reason = "its driver does not know this request"
        except (DriverFailed, OSError, ValueError) as error:
            reason = error
        else:
            return
        self.fail(part, peer, reason)
        if peer in opened:
            opened.pop(peer).stop()


def machine():
    """What the figures were taken on."""
    model = "unknown"
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    with open("/proc/meminfo", encoding="ascii") as file:
        memory_kb = int(file.readline().split()[1])
    system = os.uname()
    return {"cpu": model, "cores": len(os.sched_getaffinity(0)), "memory_gb": round(memory_kb / 1048576),
            "kernel": "%s %s %s" % (system.sysname, system.release, system.machine),
            "load_before": round(os.getloadavg()[0], 2)}
