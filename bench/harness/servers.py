# SPDX-License-Identifier: MIT
"""The servers of a run: one Redis for everybody, and etcd for the one that is not on Redis.

Each has a directory and ports of its own and dies with the run. What a server has counted is read over its Unix
socket, so that looking costs no peer a connection."""
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "second"))
from resp import Connection  # noqa: E402

START_S = 20


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until(condition, what, seconds=START_S):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise RuntimeError(what + ": not within %d s" % seconds)
        time.sleep(0.02)


class Process:
    """A server's process, its directory and its log."""

    def __init__(self, directory, argv):
        self.directory = directory
        self.log = os.path.join(directory, "log")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)


class RedisServer(Process):
    def __init__(self, binary="redis-server"):
        directory = tempfile.mkdtemp(prefix="sneck-bench-")
        self.port = free_port()
        self.url = "redis://127.0.0.1:%d" % self.port
        self.socket_path = os.path.join(directory, "redis.sock")
        self.settings = ["--save", "", "--appendonly", "no", "--maxclients", "20000"]
        super().__init__(directory, [binary, "--bind", "127.0.0.1", "--port", str(self.port),
                                     "--unixsocket", self.socket_path, "--dir", directory] + self.settings)
        wait_until(self._answers, "redis-server")
        self.version = self.info("server")["redis_version"]

    def _answers(self):
        try:
            self.connection = Connection(self.socket_path)
            return self.call("PING") == "PONG"
        except OSError:
            return False

    def call(self, *words):
        return self.connection.call(*words)

    def info(self, section):
        lines = self.call("INFO", section).splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def cpu_s(self):
        info = self.info("cpu")
        return float(info["used_cpu_sys"]) + float(info["used_cpu_user"])

    def script_us(self):
        """Microseconds in scripts since the server started, all that they call included."""
        total = 0
        for command, text in self.info("commandstats").items():
            if re.fullmatch(r"cmdstat_(eval|evalsha|fcall)(_ro)?", command):
                total += int(re.search(r"usec=(\d+)", text).group(1))
        return total

    def flush(self):
        self.call("FLUSHALL")

    def keys(self):
        cursor, found = "0", []
        while True:
            cursor, some = self.call("SCAN", cursor, "COUNT", 10000)
            found += some
            if cursor == "0":
                return sorted(set(found))

    def pipeline(self, requests):
        """Answers of many commands, sent at once. Integers alone: this is for sweeps over all keys."""
        connection = Connection(self.socket_path)
        sender = threading.Thread(target=connection.socket.sendall, args=(requests,))
        sender.start()
        expected, parts = requests.count(b"*2\r\n") + requests.count(b"*5\r\n"), []
        lines = 0
        while lines < expected:
            parts.append(connection.socket.recv(1 << 20))
            lines += parts[-1].count(b"\n")
        sender.join()
        connection.socket.close()
        return [int(line[1:]) for line in b"".join(parts).split(b"\r\n") if line[:1] == b":"]

    def bytes_in_keys(self):
        """What the keys weigh, by the server's own estimate: names, values and their entry in the table."""
        keys = self.keys()
        if not keys:
            return 0
        return sum(self.pipeline(b"".join(encode("MEMORY", "USAGE", key, "SAMPLES", "0") for key in keys)))


def encode(*words):
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in map(str.encode, words))


class CommandCounter:
    """Counts the commands that clients send, by MONITOR: the server's own statistics count what scripts call as
    well. It slows the server down, so no time is taken meanwhile. PING is not counted unless wanted: clients that are
    idle send it to keep their connections."""

    END = "bench:end-of-count"

    def __init__(self, server, pings=False):
        self.server = server
        self.pings = pings
        self.count = 0
        self.connection = Connection(server.socket_path)
        self.connection.call("MONITOR")
        self.thread = threading.Thread(target=self._read)
        self.thread.start()

    def _read(self):
        rest, end = b"", self.END.encode()
        while True:
            data = self.connection.socket.recv(1 << 18)
            if not data:
                return
            lines = (rest + data).split(b"\r\n")
            rest = lines.pop()
            for line in lines:
                if end in line:
                    return
                _, _, command = line.partition(b"] ")
                if command and b" lua] " not in line[:60] and (self.pings or command.lower() != b'"ping"'):
                    self.count += 1

    def stop(self):
        """What was sent before this call is counted: the server shows commands in their order."""
        self.server.call("ECHO", self.END)
        self.thread.join()
        self.connection.socket.close()
        return self.count


class EtcdServer(Process):
    """etcd syncs each write to its disk and Redis (here) none: its directory is in memory where there is such a
    place, so that locks are compared and not disks."""

    def __init__(self, binary):
        memory = "/dev/shm"
        directory = tempfile.mkdtemp(prefix="sneck-bench-etcd-", dir=memory if os.access(memory, os.W_OK) else None)
        self.in_memory = directory.startswith(memory)
        client, peer = free_port(), free_port()
        self.url = "http://127.0.0.1:%d" % client
        peer_url = "http://127.0.0.1:%d" % peer
        super().__init__(directory, [
            binary, "--data-dir", os.path.join(directory, "data"), "--log-level", "error",
            "--listen-client-urls", self.url, "--advertise-client-urls", self.url,
            "--listen-peer-urls", peer_url, "--initial-advertise-peer-urls", peer_url,
            "--initial-cluster", "default=" + peer_url])
        self.port = client
        wait_until(self._answers, "etcd")

    def _answers(self):
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as probe:
                probe.sendall(b"GET /health HTTP/1.0\r\n\r\n")
                return b"true" in probe.recv(4096)
        except OSError:
            return False

    def cpu_s(self):
        return process_cpu_s(self.process.pid)


def process_cpu_s(pid):
    """Processor time of a process, threads that have ended included; to a hundredth of a second."""
    with open("/proc/%d/stat" % pid, encoding="ascii", errors="replace") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
