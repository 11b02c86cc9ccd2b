# SPDX-License-Identifier: MIT
"""Callers that are not in each other's way: one alone, many on different locks, one inside its own hold; and what a
lock weighs on the server."""
from .servers import CommandCounter
from .stats import figure, quantile

PAIR_MS = 400
HELD = 1000
WAITING = 64
CROWD = 1000


def collect(values, key, number):
    values.setdefault(key, []).append(number)


def figures(values):
    return {name: figure(rounds) for name, rounds in values.items()}


def warm(run, part, opened, word, **values):
    for peer, driver in list(opened.items()):
        with run.attempt(part, peer, opened):
            driver.ask(word, ms=peer.warm_ms, name=peer.key(part), **values)


def pair(run):
    """(a) Acquire + release, one caller, nobody else."""
    values = {}
    with run.drivers("pair", "pair") as opened:
        warm(run, "pair", opened, "pair", n=1000000)
        for number in run.schedule.rounds("pair"):
            run.schedule.say("pair: round %d" % (number + 1))
            for peer, driver in list(opened.items()):
                with run.attempt("pair", peer, opened):
                    pair_round(run, peer, driver, values.setdefault(peer.name, {}))
        for peer, driver in list(opened.items()):
            if peer.server != "redis":
                continue
            with run.attempt("pair", peer, opened):
                counter = CommandCounter(run.redis, pings=peer.name == "ping")
                done = len(driver.ask("pair", n=200, name=peer.key("pair"))["ns"])
                collect(values[peer.name], "commands", counter.stop() / done)
    run.found["pair"] = {name: figures(rounds) for name, rounds in values.items()}


def pair_round(run, peer, driver, values):
    server = run.server_of(peer)
    cpu, script = (server.cpu_s() if server else 0), run.redis.script_us()
    took = driver.ask("pair", n=100000, ms=PAIR_MS, name=peer.key("pair"))["ns"]
    collect(values, "p50_us", quantile(took, 0.5) / 1e3)
    collect(values, "p99_us", quantile(took, 0.99) / 1e3)
    if server:
        collect(values, "server_cpu_us", (server.cpu_s() - cpu) / len(took) * 1e6)
    spent = run.redis.script_us() - script
    if spent and peer.server == "redis":
        collect(values, "script_us", spent / len(took))
    if "pause" in peer.serves:
        paused = driver.ask("pair", n=100000, ms=PAIR_MS, name=peer.key("pair"), pause_us=2000)["ns"]
        collect(values, "paused_p50_us", quantile(paused, 0.5) / 1e3)


def threads(run, counts=(1, 8, 64, 256)):
    """(b) Threads on different locks, one client."""
    ms = 1000 if run.schedule.slot("threads") > 200 else 500
    found = {}
    with run.drivers("threads", "threads") as opened:
        warm(run, "threads", opened, "threads", threads=8)
        for count in counts:
            values = {}
            for number in run.schedule.rounds("threads", len(counts)):
                for peer, driver in list(opened.items()):
                    run.schedule.say("threads: %d, round %d, %s" % (count, number + 1, peer.name))
                    with run.attempt("threads", peer, opened):
                        threads_round(run, peer, driver, count, ms, values.setdefault(peer.name, {}))
            for name, rounds in values.items():
                found.setdefault(name, {})[str(count)] = figures(rounds)
    run.found["threads"] = found


def threads_round(run, peer, driver, count, ms, values):
    server = run.server_of(peer)
    server_cpu, client_cpu = (server.cpu_s() if server else 0), driver.cpu_s()
    answer = driver.ask("threads", threads=count, ms=ms, name=peer.key("threads"))
    pairs = max(1, answer["pairs"])
    collect(values, "per_second", answer["pairs"] / answer["ns"] * 1e9)
    collect(values, "client_cpu_us", (driver.cpu_s() - client_cpu) / pairs * 1e6)
    if server:
        collect(values, "server_cpu_us", (server.cpu_s() - server_cpu) / pairs * 1e6)


def reentry(run):
    """(f) Taking a lock again that one holds."""
    values = {}
    with run.drivers("reentry", "reentry") as opened:
        for peer, driver in list(opened.items()):
            with run.attempt("reentry", peer, opened):
                driver.ask("reenter", n=2000, name=peer.key("reentry"))
        for number in run.schedule.rounds("reentry"):
            run.schedule.say("reentry: round %d" % (number + 1))
            for peer, driver in list(opened.items()):
                with run.attempt("reentry", peer, opened):
                    answer = driver.ask("reenter", n=20000 if peer.name == "sneck" else 1000, name=peer.key("reentry"))
                    collect(values.setdefault(peer.name, {}), "ns", answer["ns"] / answer["n"])
        for peer, driver in list(opened.items()):
            with run.attempt("reentry", peer, opened):
                counter = CommandCounter(run.redis)
                n = driver.ask("reenter", n=500, name=peer.key("reentry"))["n"]
                # The hold around them has two commands of its own.
                collect(values[peer.name], "commands", max(0, counter.stop() - 2) / n)
    run.found["reentry"] = {name: figures(rounds) for name, rounds in values.items()}


def count_commands(run, driver, word, **values):
    counter = CommandCounter(run.redis)
    driver.ask(word, **values)
    return counter.stop()


def linger(run):
    """(g) Taking a lock again that lingers, and getting one that lingers elsewhere."""
    values = {}
    with run.drivers("linger", "linger") as opened:
        for peer, driver in list(opened.items()):
            with run.attempt("linger", peer, opened):
                driver.ask("linger", n=2000, name=peer.key("linger"))
                driver.ask("recall", n=5, name=peer.key("recall"))
        for number in run.schedule.rounds("linger"):
            run.schedule.say("linger: round %d" % (number + 1))
            for peer, driver in list(opened.items()):
                with run.attempt("linger", peer, opened):
                    entry = values.setdefault(peer.name, {})
                    answer = driver.ask("linger", n=20000, name=peer.key("linger"))
                    collect(entry, "ns", answer["ns"] / answer["n"])
                    recalls = driver.ask("recall", n=50, name=peer.key("recall"))["ns"]
                    collect(entry, "recall_us", quantile(recalls, 0.5) / 1e3)
        for peer, driver in list(opened.items()):
            with run.attempt("linger", peer, opened):
                # Connecting, taking it first and giving it back cost the same, however often it is taken again.
                counts = [count_commands(run, driver, "linger", n=n, name=peer.key("linger")) for n in (1, 1001)]
                collect(values[peer.name], "commands", max(0, counts[1] - counts[0]) / 1000)
    run.found["linger"] = {name: figures(rounds) for name, rounds in values.items()}


def memory(run):
    """(i) Bytes in the server's keys, for each held lock, each reader, each waiter."""
    values = {}
    for what, word, n in (("held", "hold", HELD), ("reader", "crowd", CROWD), ("waiter", "queue", WAITING)):
        with run.drivers("memory", word) as opened:
            for peer, driver in list(opened.items()):
                if peer.server != "redis":
                    continue
                run.schedule.say("memory: %s, %s" % (what, peer.name))
                with run.attempt("memory", peer, opened):
                    weigh(run, driver, word, n, values.setdefault(peer.name, {}), what)
    run.found["memory"] = {name: figures(rounds) for name, rounds in values.items()}


def weigh(run, driver, word, n, values, what):
    """The difference to one: a reader's or waiter's own weight, without the lock that is there anyway."""
    weights = []
    for count in ((0, n) if word == "hold" else (1, n + 1)):
        run.redis.flush()
        if count:
            driver.ask(word, n=count, name="0123456789ab")
        weights.append(run.redis.bytes_in_keys())
        if count:
            driver.ask("drop")
    collect(values, what, (weights[1] - weights[0]) / n)
