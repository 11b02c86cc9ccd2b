# SPDX-License-Identifier: MIT
"""A connection to a Redis server on a Unix socket: RESP2, one command at a time, nothing else."""
import select
import socket


class ServerError(Exception):
    pass


class Connection:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.connect(path)
        self.received = b""

    def send(self, *words):
        out = b"*%d\r\n" % len(words)
        for word in words:
            word = word if isinstance(word, bytes) else str(word).encode()
            out += b"$%d\r\n%s\r\n" % (len(word), word)
        self.socket.sendall(out)

    def _more(self):
        data = self.socket.recv(65536)
        if not data:
            raise ConnectionError("the server has closed the connection")
        self.received += data

    def _line(self):
        while b"\r\n" not in self.received:
            self._more()
        line, self.received = self.received.split(b"\r\n", 1)
        return line

    def _bytes(self, n):
        while len(self.received) < n + 2:
            self._more()
        data, self.received = self.received[:n], self.received[n + 2:]
        return data

    def read(self):
        line = self._line()
        kind, rest = line[:1], line[1:]
        if kind == b"-":
            raise ServerError(rest.decode())
        if kind == b"+":
            return rest.decode()
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self._bytes(int(rest)).decode()
        if kind == b"*":
            return [self.read() for _ in range(int(rest))]
        raise ValueError("not RESP2: %r" % line)

    def call(self, *words):
        self.send(*words)
        return self.read()

    def readable(self, seconds):
        return bool(self.received) or bool(select.select([self.socket], [], [], seconds)[0])
