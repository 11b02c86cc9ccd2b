# SPDX-License-Identifier: MIT
"""How long each part may take, and the line that says how far the run is.

A run has so many minutes; each part has its share of them and takes as many rounds as fit, but never fewer than it
needs for a median. A slow machine or a slow peer costs rounds, not hours."""
import sys
import time

SHARES = {"pair": 5, "threads": 18, "benchmark": 2, "contend": 39, "handoff": 5, "readers": 7, "writer": 4, "renewal": 13,
          "reentry": 1, "linger": 1, "memory": 2, "command": 4}


class Schedule:
    def __init__(self, minutes, parts, least=3, most=15):
        self.began = time.monotonic()
        self.seconds = minutes * 60
        self.least, self.most = least, most
        total = sum(SHARES[part] for part in parts)
        self.slots = {part: self.seconds * SHARES[part] / total for part in parts}
        self.tty = sys.stderr.isatty()

    def slot(self, part):
        return self.slots[part]

    def rounds(self, part, configurations=1):
        """Round numbers, as long as this part's slot (or its configuration's piece of it) lasts."""
        began = time.monotonic()
        slot = self.slots[part] / configurations
        for number in range(self.most):
            spent = time.monotonic() - began
            if number >= self.least and spent + spent / number > slot:
                return
            yield number

    def say(self, text):
        spent = int(time.monotonic() - self.began)
        line = "bench: %d:%02d of about %d:%02d  %s" % (spent // 60, spent % 60, self.seconds // 60,
                                                      self.seconds % 60, text)
        if self.tty:
            sys.stderr.write("\r\033[K" + line)
        else:
            sys.stderr.write(line + "\n")
        sys.stderr.flush()

    def end(self):
        if self.tty:
            sys.stderr.write("\n")
