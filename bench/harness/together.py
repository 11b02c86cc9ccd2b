# SPDX-License-Identifier: MIT
"""Contenders in separate processes: waits, fairness, hand-offs, and a writer among readers.

Beside them, in the same rounds, runs a control: processes that pass a token round through pipes and hold it as long.
What it waits is what this machine costs; a lock can be judged by what it adds."""
import time

from .apart import collect, figures
from .drivers import Driver
from .peers import BY_NAME
from .servers import CommandCounter
from .stats import contended, handoffs_us, quantile, turns_of, waits_ms

LEAD_MS = 250
LIMIT_MS = 4000
# contenders, hold in microseconds, turns of each: so many that a fair queue needs about two seconds at most
SHAPES = ((8, 0, 300), (8, 2000, 100), (64, 0, 50), (64, 2000, 16))
MOST = 64


def shape_name(contenders, hold_us):
    return "%d x %d ms" % (contenders, hold_us // 1000)


def contend(run, shapes=SHAPES):
    """(c) One lock, many processes."""
    most = max(contenders for contenders, _, _ in shapes)
    # Every driver in C can run the ring; flock's needs no server for it.
    control = Driver(*run.installed.command(BY_NAME["flock"], run.directory, 1)).ready()
    run.found["contend"] = {}
    try:
        with run.fleets("contend", "contend", most) as fleets:
            for contenders, hold_us, turns in shapes:
                shape(run, fleets, control, contenders, hold_us, turns, len(shapes))
    finally:
        control.stop()


def shape(run, fleets, control, contenders, hold_us, turns, shapes):
    name = shape_name(contenders, hold_us)
    pooled, values = {}, {}
    request = {"hold_us": hold_us, "limit_ms": LIMIT_MS}
    for peer, fleet in list(fleets.items()):
        run.schedule.say("contend: %s, %s warms up" % (name, peer.name))
        with run.attempt("contend", peer, fleets):
            for _ in range(3 if peer.jit else 1):
                fleet.contend(contenders, LEAD_MS, name=peer.key("contend"), n=max(2, turns // 5), **request)
    for number in run.schedule.rounds("contend", shapes):
        at = time.monotonic_ns() + LEAD_MS * 1000000
        ring = control.ask("ring", procs=contenders, n=turns, hold_us=hold_us, at=at)["contenders"]
        note(pooled, values, "control", ring)
        for peer, fleet in list(fleets.items()):
            run.schedule.say("contend: %s, round %d, %s" % (name, number + 1, peer.name))
            with run.attempt("contend", peer, fleets):
                result = fleet.contend(contenders, LEAD_MS, name=peer.key("contend"), n=turns, **request)
                note(pooled, values, peer.name, result)
    for peer, fleet in list(fleets.items()):
        if peer.server != "redis":
            continue
        run.schedule.say("contend: %s, counting commands of %s" % (name, peer.name))
        with run.attempt("contend", peer, fleets):
            counter = CommandCounter(run.redis)
            result = fleet.contend(contenders, LEAD_MS, name=peer.key("contend"), n=max(4, turns // 2), **request)
            collect(values[peer.name], "commands", counter.stop() / contended(result)["turns"])
    run.found["contend"][name] = {who: {**figures(rounds), **whole(pooled[who])} for who, rounds in values.items()}


def note(pooled, values, who, contenders):
    for key, number in contended(contenders).items():
        collect(values.setdefault(who, {}), key, number)
    pooled.setdefault(who, []).extend(waits_ms(contenders))


def whole(waits):
    """Of all rounds together: the rare ones are too few in a single round."""
    return {"all_p50_ms": quantile(waits, 0.5), "all_p999_ms": quantile(waits, 0.999), "all_worst_ms": max(waits),
            "all_turns": len(waits)}


def handoff(run, turns=150):
    """(h) Two processes in turn: from the release to the other one running."""
    values = {}
    request = {"hold_us": 2000, "limit_ms": LIMIT_MS}
    with run.fleets("handoff", "contend", 2) as fleets:
        for number in run.schedule.rounds("handoff"):
            for peer, fleet in list(fleets.items()):
                run.schedule.say("handoff: round %d, %s" % (number + 1, peer.name))
                with run.attempt("handoff", peer, fleets):
                    result = fleet.contend(2, LEAD_MS, name=peer.key("handoff"), n=turns, **request)
                    passed = handoffs_us(result)
                    if passed and number:  # the first round warms up
                        entry = values.setdefault(peer.name, {})
                        collect(entry, "p50_us", quantile(passed, 0.5))
                        collect(entry, "p99_us", quantile(passed, 0.99))
                        collect(entry, "passed_on", len(passed) / (contended(result)["turns"] - 1))
    run.found["handoff"] = {name: figures(rounds) for name, rounds in values.items()}


READERS = 4
READ_HOLD_US = 5000


def writer(run):
    """(d) How long a writer waits while readers come and go so that there is always one."""
    found = {}
    with run.fleets("writer", "writer", READERS + 1) as fleets:
        for number in run.schedule.rounds("writer"):
            for peer, fleet in list(fleets.items()):
                run.schedule.say("writer: round %d, %s" % (number + 1, peer.name))
                with run.attempt("writer", peer, fleets):
                    collect_writer(fleet, peer.key("writer"), found.setdefault(peer.name, {}))
    run.found["writer"] = {name: figures(rounds) for name, rounds in found.items()}


def collect_writer(fleet, name, values):
    at = time.monotonic_ns() + LEAD_MS * 1000000
    readers, one = fleet.drivers[:READERS], fleet.drivers[READERS]
    limit_ms = 2000
    for driver in readers:
        driver.send("contend", n=100000, hold_us=READ_HOLD_US, limit_ms=limit_ms, at=at, clients=1, mode="read",
                    name=name)
    one.send("contend", n=60, hold_us=0, gap_us=20000, limit_ms=limit_ms, at=at + 50000000, clients=1, mode="write",
             name=name)
    reads = [contender for driver in readers for contender in driver.receive()["contenders"]]
    writes = one.receive()["contenders"]
    waits = waits_ms(writes)
    longest = max((left - got) / 1e6 for contender in reads for _, got, left in turns_of(contender))
    collect(values, "wait_p50_ms", quantile(waits, 0.5))
    collect(values, "wait_worst_ms", max(waits))
    collect(values, "longest_read_ms", longest)
    collect(values, "worst_by_longest", max(waits) / longest)
    collect(values, "writes", len(waits))
