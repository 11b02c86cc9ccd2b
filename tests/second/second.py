# SPDX-License-Identifier: MIT
"""A second client of the layouts `counted` and `intent`, written from their documents: it shares nothing with
sneck but the server. Started by test_second.c as `second.py LAYOUT SOCKET DIRECTORY`, it does what it is told,
line by line, and answers each line with one:

    rlock|wlock NAME OWNER LEASE_MS     the document's result, e.g. `1 30000` or `OK`
    runlock|wunlock NAME OWNER          (NAME may have any character but a blank)
    rrenew|wrenew NAME OWNER LEASE_MS   `counted` alone
    listen CHANNEL                      ok
    heard MS                            what was published there, or `nothing`
    dance NAME SEED SECONDS             `writes reads overlaps`, after that long
"""
import os
import random
import sys
import time
import uuid

from resp import Connection

MARK_MS = 2000
DANCE_LEASE_MS = 20000


class Layout:
    """The scripts of a document, as methods."""

    def __init__(self, layout, path, directory):
        self.redis = Connection(path)
        self.layout = layout
        self.scripts = {}
        for file in sorted(os.listdir(os.path.join(directory, layout))):
            with open(os.path.join(directory, layout, file), encoding="utf-8") as script:
                self.scripts[file.removesuffix(".lua")] = script.read()

    def run(self, operation, name, owner, *numbers):
        keys = [name]
        if self.layout == "intent":
            keys.append(name if "{" in name else "{" + name + "}")
            if operation == "wlock":
                numbers += (MARK_MS,)
        return self.redis.call("EVAL", self.scripts[operation], len(keys), *keys, owner, *numbers)

    def took(self, result):
        return result[0] == 1 if self.layout == "counted" else result == "OK"

    def gave_back(self, result):
        return result[0] == 1 if self.layout == "counted" else result in (0, 1)


class Dancer:
    """Takes turns to read and to write, and looks for others who do so at the same time."""

    def __init__(self, layout, name, seed):
        self.layout = layout
        self.redis = layout.redis
        self.name = name
        self.random = random.Random(seed)
        self.writes = self.reads = self.overlaps = 0

    def take(self, operation, owner):
        while not self.layout.took(self.layout.run(operation, self.name, owner, DANCE_LEASE_MS)):
            time.sleep(0.003 + self.random.random() / 200)

    def must(self, operation, owner):
        result = self.layout.run(operation, self.name, owner)
        if not self.layout.gave_back(result):
            raise AssertionError("%s of our own hold: %s" % (operation, result))

    def write(self, owner):
        self.take("wlock", owner)
        if self.redis.call("INCR", "dance:writers") != 1 or int(self.redis.call("GET", "dance:readers") or 0):
            self.overlaps += 1
        tally = int(self.redis.call("GET", "dance:tally") or 0)
        if self.layout.layout == "counted" and self.random.random() < 0.3:
            self.nest(owner)
        self.redis.call("SET", "dance:tally", tally + 1)
        self.writes += 1
        self.redis.call("DECR", "dance:writers")
        self.must("wunlock", owner)

    def nest(self, owner):
        """Write again, and read while writing."""
        for operation in ("wlock", "rlock"):
            self.take(operation, owner)
        for operation in ("runlock", "wunlock"):
            self.must(operation, owner)

    def read(self, owner):
        self.take("rlock", owner)
        self.redis.call("INCR", "dance:readers")
        if int(self.redis.call("GET", "dance:writers") or 0):
            self.overlaps += 1
        self.reads += 1
        self.redis.call("DECR", "dance:readers")
        self.must("runlock", owner)

    def dance(self, seconds):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            turn = self.write if self.random.random() < 0.5 else self.read
            turn(str(uuid.uuid4()))
            time.sleep(self.random.random() / 100)
        return self.writes, self.reads, self.overlaps


def text(result):
    return " ".join(str(part) for part in result) if isinstance(result, (list, tuple)) else str(result)


class Second:
    def __init__(self, layout, path, directory):
        self.path = path
        self.layout = Layout(layout, path, directory)
        self.listener = None

    def listen(self, channel):
        self.listener = Connection(self.path)
        self.listener.call("SUBSCRIBE", channel)
        return "ok"

    def heard(self, ms):
        if not self.listener.readable(int(ms) / 1000):
            return "nothing"
        return self.listener.read()[2]

    def answer(self, word, *words):
        if word == "listen":
            return self.listen(*words)
        if word == "heard":
            return self.heard(*words)
        if word == "dance":
            name, seed, seconds = words
            return Dancer(self.layout, name, int(seed)).dance(float(seconds))
        return self.layout.run(word, *words)


def main():
    second = Second(*sys.argv[1:4])
    for line in sys.stdin:
        print(text(second.answer(*line.split())), flush=True)


main()
