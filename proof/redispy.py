# SPDX-License-Identifier: MIT
"""redis-py's Lock under the fault harness: a worker that takes turns as proof/worker_section.c does.

Started by sneck-worker (proof/redispy.c), never by hand. History and witness have the layouts that history.h and
witness.h describe. redis-py tells a program that it has the lock and nothing about for how long; all that a program can
do is count `timeout` from the return of acquire(), and that is what is written down as the validity.
"""

import mmap
import os
import random
import struct
import sys
import time

import redis
from redis.exceptions import LockError, RedisError

HEADER = struct.Struct("=QIiQQQI20x")
RECORD = struct.Struct("=qqqqQQIIiBBBB")
MAGIC = 0x31747369486B6E53
CAPACITY = 200000
ACQUIRE, RELEASE, CLOSE, ENTER, LEAVE = 1, 2, 10, 13, 14
FAIR = 4
ETIMEDOUT, EUNKNOWN, ELOST = -2, -30, -40
AWAY, IDLE, WAITING, HOLDING, CALLING = range(5)
LEASE_MS, WAIT_MS, COMMAND_MS = 500, 8000, 2000
ENTER_SPARE_MS, LEAVE_SPARE_MS, STEP_MS = 40, 10, 10
MS = 1000000


def now():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class History:
    """Appends records; `op` is stored last of the first half, `return_ns` last of the second."""

    def __init__(self, path):
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        os.ftruncate(self.fd, HEADER.size + CAPACITY * RECORD.size)
        self.map = mmap.mmap(self.fd, 0)
        self.next = self.holds = 0
        HEADER.pack_into(self.map, 0, MAGIC, RECORD.size, os.getpid(), CAPACITY, 0, 0, 0)

    def begin(self, op, lock, actor, hold, deadline=0):
        slot = min(self.next, CAPACITY - 1)
        self.next += 1
        struct.pack_into("=Q", self.map, 24, self.next)
        if self.next > CAPACITY:
            struct.pack_into("=I", self.map, 40, 1)
        at = HEADER.size + slot * RECORD.size
        RECORD.pack_into(self.map, at, now(), 0, 0, deadline, 0, hold, lock, actor, 0, 0, ord("W"), FAIR, 0)
        self.map[at + 60] = op
        return at

    def end(self, at, result, valid_until=0, token=0):
        struct.pack_into("=q", self.map, at + 16, valid_until)
        struct.pack_into("=Q", self.map, at + 32, token)
        struct.pack_into("=i", self.map, at + 56, result)
        struct.pack_into("=q", self.map, at + 8, now())

    def new_hold(self):
        self.holds += 1
        struct.pack_into("=Q", self.map, 32, self.holds)
        return os.getpid() << 32 | self.holds


class Witness:
    def __init__(self, directory):
        self.directory = directory
        fd = os.open(os.path.join(directory, "witness"), os.O_RDWR | os.O_CREAT, 0o600)
        os.ftruncate(fd, 4096 * 64)
        self.map = mmap.mmap(fd, 0)
        os.close(fd)

    def path(self, lock):
        return os.path.join(self.directory, "section-%d" % lock)

    def owner(self, path):
        try:
            return int(os.readlink(path))
        except FileNotFoundError:
            return 0

    def make_link(self, path, hold):
        while True:
            try:
                os.symlink(str(hold), path)
                return 0
            except FileExistsError:
                met = self.owner(path)
                if met:
                    break
        own = "%s.%d" % (path, hold)
        os.symlink(str(hold), own)
        os.rename(own, path)
        return met

    def enter(self, lock, hold):
        met = self.make_link(self.path(lock), hold)
        return met, struct.unpack_from("=Q", self.map, lock * 64)[0]

    def leave(self, lock, hold, counter):
        met = 0
        found, last = struct.unpack_from("=QQ", self.map, lock * 64)
        if found != counter:
            met = last
        struct.pack_into("=Q", self.map, lock * 64 + 8, hold)
        struct.pack_into("=Q", self.map, lock * 64, counter + 1)
        owner = self.owner(self.path(lock))
        if owner == hold:
            os.unlink(self.path(lock))
        elif not met:
            met = owner or 2**64 - 1
        return met


class Board:
    def __init__(self, directory, places):
        fd = os.open(os.path.join(directory, "board"), os.O_RDWR)
        self.map = mmap.mmap(fd, 0)
        os.close(fd)
        (self.stop, self.own_stop, self.pid, self.ready, self.grants, self.phase_at, self.lock_at, self.since,
         self.until, self.last_grant, self.lock_size) = map(int, places.split())

    def must_stop(self):
        return any(struct.unpack_from("=I", self.map, at)[0] for at in (self.stop, self.own_stop))

    def phase(self, phase, lock, until=0):
        struct.pack_into("=I", self.map, self.lock_at, lock)
        struct.pack_into("=q", self.map, self.since, now())
        struct.pack_into("=q", self.map, self.until, until)
        struct.pack_into("=I", self.map, self.phase_at, phase)

    def granted(self, lock, until):
        count = struct.unpack_from("=Q", self.map, self.grants)[0]
        struct.pack_into("=Q", self.map, self.grants, count + 1)
        struct.pack_into("=q", self.map, self.last_grant + lock * self.lock_size, now())
        self.phase(HOLDING, lock, until)

    def is_ready(self, ready):
        struct.pack_into("=i", self.map, self.pid, os.getpid())
        struct.pack_into("=I", self.map, self.ready, ready)


class Worker:
    def __init__(self, url, directory, history, places, actor, first_lock, locks, holding_ms, seed):
        self.client = redis.Redis(unix_socket_path=url[len("unix://"):], protocol=2)
        self.history = History(history)
        self.witness = Witness(directory)
        self.board = Board(directory, places)
        self.actor, self.holding_ms = int(actor), int(holding_ms)
        self.locks = range(int(first_lock), int(first_lock) + int(locks))
        self.random = random.Random(int(seed))

    def acquire(self, lock, number, hold):
        """The end of the validity, or 0."""
        at = self.history.begin(ACQUIRE, number, self.actor, hold, now() + WAIT_MS * MS)
        valid_until = 0
        try:
            result = 0 if lock.acquire() else ETIMEDOUT
        except RedisError:
            result = EUNKNOWN
        if result == 0:
            valid_until = now() + LEASE_MS * MS
        self.history.end(at, result, valid_until)
        return valid_until

    def release(self, lock, number, hold):
        at = self.history.begin(RELEASE, number, self.actor, hold, now() + COMMAND_MS * MS)
        try:
            lock.release()
            result = 0
        except LockError:
            result = ELOST
        except RedisError:
            result = EUNKNOWN
        self.history.end(at, result)

    def section(self, number, hold, inside_ms, valid_until):
        if valid_until - now() < ENTER_SPARE_MS * MS:
            return
        at = self.history.begin(ENTER, number, self.actor, hold)
        met, counter = self.witness.enter(number, hold)
        self.history.end(at, -1 if met else 0, token=met)
        leave_at = now() + inside_ms * MS
        while now() < leave_at and valid_until - now() >= LEAVE_SPARE_MS * MS:
            time.sleep(min(STEP_MS, inside_ms) / 1000)
        if valid_until - now() < LEAVE_SPARE_MS * MS:
            # Its time is over: nothing more is written. It is busy until it would have been done.
            time.sleep(max(0, leave_at - now()) / 1e9)
            return
        at = self.history.begin(LEAVE, number, self.actor, hold)
        met = self.witness.leave(number, hold, counter)
        self.history.end(at, -1 if met else 0, token=met)

    def turn(self):
        number = self.random.choice(self.locks)
        inside_ms = self.random.randint(20, self.holding_ms)
        lock = self.client.lock("fault-%d" % number, timeout=LEASE_MS / 1000, sleep=0.005,
                                blocking_timeout=WAIT_MS / 1000)
        hold = self.history.new_hold()
        self.board.phase(WAITING, number)
        valid_until = self.acquire(lock, number, hold)
        if valid_until:
            self.board.granted(number, now() + inside_ms * MS)
            self.section(number, hold, inside_ms, valid_until)
            self.board.phase(CALLING, number)
            self.release(lock, number, hold)
        self.board.phase(IDLE, number)

    def run(self):
        self.board.is_ready(1)
        while not self.board.must_stop():
            self.turn()
        at = self.history.begin(CLOSE, 0xFFFFFFFF, self.actor, 0)
        self.client.close()
        self.history.end(at, 0)
        self.board.is_ready(0)


if __name__ == "__main__":
    Worker(*sys.argv[1:]).run()
