# SPDX-License-Identifier: MIT
"""Programs that speak the driver's protocol (bench/peers/README.md), one or a fleet of them.

A driver that dies or is silent fails its peer, not the run: the report names it with the last that it said."""
import json
import os
import select
import subprocess
import tempfile
import time

from .servers import process_cpu_s

ANSWER_S = 120
START_S = 90
END_S = 5
CONTEND_S = 60


class DriverFailed(Exception):
    pass


class Unsupported(Exception):
    pass


class Driver:
    def __init__(self, argv, env=None):
        self.errors = tempfile.TemporaryFile()
        self.argv = argv
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
                                        env={**os.environ, **(env or {})}, start_new_session=True)
        self.poll = select.poll()
        self.poll.register(self.process.stdout, select.POLLIN)
        self.received = b""

    def ready(self):
        self.hello = self.receive(START_S)
        return self

    def send(self, word, **values):
        line = " ".join([word] + ["%s=%s" % pair for pair in values.items()]) + "\n"
        try:
            self.process.stdin.write(line.encode())
            self.process.stdin.flush()
        except OSError:
            self._fail("has ended")

    def receive(self, seconds=ANSWER_S):
        end = time.monotonic() + seconds
        parts = [self.received]
        while b"\n" not in parts[-1]:
            if not self.poll.poll(max(0, end - time.monotonic()) * 1000):
                self._fail("has not answered in time")
            data = os.read(self.process.stdout.fileno(), 1 << 20)
            if not data:
                self._fail("has ended")
            parts.append(data)
        line, self.received = b"".join(parts).split(b"\n", 1)
        answer = json.loads(line)
        if answer.get("unsupported"):
            raise Unsupported()
        if "error" in answer:
            raise DriverFailed(answer["error"])
        return answer

    def ask(self, word, seconds=ANSWER_S, **values):
        self.send(word, **values)
        return self.receive(seconds)

    def cpu_s(self):
        return process_cpu_s(self.process.pid)

    def _fail(self, what):
        self.errors.seek(0)
        said = self.errors.read().decode(errors="replace").strip().splitlines()
        self.stop()
        raise DriverFailed("%s %s%s" % (os.path.basename(self.argv[0]), what, ": " + said[-1][:200] if said else ""))

    def stop(self, seconds=END_S):
        """The end of its input ends a driver; one that hangs is killed."""
        self.hang_up()
        try:
            self.process.wait(max(0, seconds))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.errors.close()

    def hang_up(self):
        try:
            self.process.stdin.close()
        except OSError:
            pass


class Fleet:
    """The contenders of one peer: processes, each with one client or several."""

    def __init__(self, commands):
        self.drivers = [Driver(argv, env) for argv, env in commands]
        try:
            for driver in self.drivers:
                driver.ready()
        except DriverFailed:
            self.stop()
            raise

    def contend(self, contenders, lead_ms, **values):
        """All at one moment, lead_ms from now; their turns. As many processes as there can be, then more clients
        in each."""
        processes = min(contenders, len(self.drivers))
        at = time.monotonic_ns() + lead_ms * 1000000
        for driver in self.drivers[:processes]:
            driver.send("contend", at=at, clients=contenders // processes, **values)
        end = time.monotonic() + CONTEND_S
        answers = [driver.receive(end - time.monotonic()) for driver in self.drivers[:processes]]
        return [contender for answer in answers for contender in answer["contenders"]]

    def stop(self):
        end = time.monotonic() + END_S
        for driver in self.drivers:
            driver.hang_up()
        for driver in self.drivers:
            driver.stop(end - time.monotonic())
