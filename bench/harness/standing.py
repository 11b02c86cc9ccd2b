# SPDX-License-Identifier: MIT
"""What stands on the server while others work: crowds of readers, and many held locks that are renewed."""
import time

from .apart import collect, figures
from .servers import encode
from .stats import quantile

CROWDS = (1, 10, 100, 1000, 10000)
HELD = (1000, 10000, 100000)
TICK_S = 10  # sneck and Redisson renew every third of a lease of 30 s
FILL_S = 300


def readers(run, crowds=CROWDS):
    """(d) A read acquire + release beside n reading sessions."""
    found = {}
    with run.drivers("readers", "crowd") as opened:
        for peer, driver in list(opened.items()):
            with run.attempt("readers", peer, opened):
                for crowd in crowds:
                    run.schedule.say("readers: %d readers of %s take their places" % (crowd, peer.name))
                    driver.ask("crowd", n=crowd, name=peer.key("readers-%d" % crowd))
                driver.ask("pair", n=1000000, ms=peer.warm_ms, mode="read", name=peer.key("readers-1"))
        values = {}
        for number in run.schedule.rounds("readers"):
            for crowd in crowds:
                for peer, driver in list(opened.items()):
                    run.schedule.say("readers: round %d, %s beside %d" % (number + 1, peer.name, crowd))
                    with run.attempt("readers", peer, opened):
                        script = run.redis.script_us()
                        took = driver.ask("pair", n=1000, ms=400, mode="read", name=peer.key("readers-%d" % crowd))["ns"]
                        entry = values.setdefault(peer.name, {}).setdefault(str(crowd), {})
                        collect(entry, "p50_us", quantile(took, 0.5) / 1e3)
                        collect(entry, "script_us", (run.redis.script_us() - script) / len(took))
        for name, of_crowd in values.items():
            found[name] = {crowd: figures(rounds) for crowd, rounds in of_crowd.items()}
    run.found["readers"] = found


def renewal(run, sizes=HELD):
    """(e) Many held locks: the server's processor time for keeping them, and how late the latest renewal came."""
    found = {}
    with run.drivers("renewal", "renewal") as opened:
        for size in sizes:
            for peer, driver in list(opened.items()):
                if peer.server != "redis" and size > 10000:
                    continue  # thousands of writes to a log per second and more than that to fill it: minutes
                with run.attempt("renewal", peer, opened):
                    found.setdefault(peer.name, {})[str(size)] = keep(run, peer, driver, size)
    run.found["renewal"] = found


def keep(run, peer, driver, size):
    server = run.server_of(peer)
    run.redis.flush()
    run.schedule.say("renewal: %s takes %d locks" % (peer.name, size))
    driver.ask("hold", seconds=FILL_S, n=size, name=peer.key("renewal"))
    run.schedule.say("renewal: %s keeps %d locks" % (peer.name, size))
    ticks = 2 if run.schedule.slot("renewal") > 240 else 1
    cpu, client_cpu = server.cpu_s(), driver.cpu_s()
    began = time.monotonic()
    time.sleep(ticks * TICK_S)
    spent = time.monotonic() - began
    values = {"server_cpu_ms": [(server.cpu_s() - cpu) / spent * TICK_S * 1e3],
              "client_cpu_ms": [(driver.cpu_s() - client_cpu) / spent * TICK_S * 1e3]}
    values["server_percent"] = [values["server_cpu_ms"][0] / TICK_S / 10]
    if peer.server == "redis":
        values["late_s"] = [lateness(run, size)]
    run.schedule.say("renewal: %s gives %d locks back" % (peer.name, size))
    driver.ask("drop", seconds=FILL_S)
    return figures(values)


def lateness(run, size):
    """How much longer than a tick the oldest renewal lies back, at worst, during a tick. The time that a key has left
    tells when it was renewed: the most that is ever seen is that of one that was renewed just now."""
    keys = [key for key in run.redis.keys() if "renewal-" in key]
    if len(keys) < size:
        raise ValueError("%d of %d locks are left" % (len(keys), size))
    sweep = b"".join(encode("PTTL", key) for key in keys)
    most, least = 0, float("inf")
    end = time.monotonic() + TICK_S * 1.2
    while time.monotonic() < end:
        left = run.redis.pipeline(sweep)
        if min(left) < 0:
            raise ValueError("a lock has ended while it was held")
        most, least = max(most, max(left)), min(least, min(left))
        time.sleep(0.2)
    return max(0, (most - least) / 1e3 - TICK_S)
