# SPDX-License-Identifier: MIT
"""What was to be reached, and whether this run reached it. A target that the run has not measured says so."""
from .peers import BY_NAME
from .stats import median, ratio

MET, MISSED, OPEN = "met", "missed", "not measured"


def dig(found, *path):
    for step in path:
        if not isinstance(found, dict) or step not in found:
            return None
        found = found[step]
    return found


def peers_in(part):
    """Those that people use: no limits, no control, not sneck."""
    return {name: entry for name, entry in (part or {}).items()
            if name in BY_NAME and not BY_NAME[name].limit and name != "sneck"}


def at_most(limit, value):
    return MET if value <= limit else MISSED


def at_least(limit, value):
    return MET if value >= limit else MISSED


def spread(figure, digits=2):
    return "%.*f (%.*f to %.*f)" % (digits, figure["median"], digits, figure["low"], digits, figure["high"])


def row(what, target, measured=None, verdict=OPEN):
    return {"what": what, "target": target, "measured": measured or "–", "verdict": verdict}


def lone(found):
    what, target = "lone uncontended pair / two raw hiredis EVALSHA", "at most 1.10"
    ours, theirs = dig(found, "pair", "sneck", "p50_us"), dig(found, "pair", "scripts", "p50_us")
    if not ours or not theirs:
        return [row(what, target)]
    both = ratio(ours, theirs)
    return [row(what, target, spread(both), at_most(1.10, both["median"]))]


def against_peers(found, part, key, what, target, limit, faster_is_less):
    """Against the best of the peers, whoever that is in this run."""
    ours = dig(part, "sneck", *key)
    others = {name: dig(entry, *key) for name, entry in peers_in(part).items() if dig(entry, *key)}
    if not ours or not others:
        return row(what, target)
    best = (min if faster_is_less else max)(others, key=lambda name: others[name]["median"])
    both = ratio(ours, others[best])
    verdict = (at_most if faster_is_less else at_least)(limit, both["median"])
    return row(what, target, "%s; %s" % (spread(both), BY_NAME[best].title), verdict)


def threads(found):
    part = found.get("threads")
    rows = [against_peers(found, part, ("64", "per_second"), "64 threads, different locks / the fastest peer",
                          "at least 1.5", 1.5, False)]
    ours, limit = dig(part, "sneck", "64", "per_second"), dig(found, "benchmark", "per_second")
    what, target = "the same / `redis-benchmark -P 16` with the same scripts", "at least 0.5"
    if not ours or not limit:
        return rows + [row(what, target)]
    value = ours["median"] / limit["median"]
    return rows + [row(what, target, "%.2f" % value, at_least(0.5, value))]


def waits(found):
    part = dig(found, "contend", "8 x 2 ms") or {}
    rows = []
    for key, text, limit in (("all_p999_ms", "p99.9 wait", 1.5), ("all_worst_ms", "worst wait", 3)):
        what = "8 processes, 2 ms hold: %s / that of the control" % text
        target = "at most %g" % limit
        ours, control = dig(part, "sneck", key), dig(part, "control", key)
        if not ours or not control:
            rows.append(row(what, target))
            continue
        others = sorted(entry[key] / control for entry in peers_in(part).values())
        measured = "%.2f (%.1f ms)" % (ours / control, ours)
        if others:
            measured += "; peers %.3g to %.3g" % (others[0], others[-1])
        rows.append(row(what, target, measured, at_most(limit, ours / control)))
    return rows


def crowded(found):
    part = dig(found, "contend", "64 x 0 ms") or {}
    ours = dig(part, "sneck", "per_second")
    names = ("64 contenders, 0 ms hold: hand-offs/s / the best fair peer", "above 1",
             "the same / the best unfair peer", "at least 0.5", "the same: commands per acquisition", "at most 3")
    fair = {name: entry["per_second"] for name, entry in peers_in(part).items() if BY_NAME[name].fair}
    unfair = {name: entry["per_second"] for name, entry in peers_in(part).items() if not BY_NAME[name].fair}
    rows = []
    for others, what, target, limit in ((fair, *names[0:2], 1), (unfair, *names[2:4], 0.5)):
        if not ours or not others:
            rows.append(row(what, target))
            continue
        best = max(others, key=lambda name: others[name]["median"])
        both = ratio(ours, others[best])
        verdict = MET if both["median"] > limit or (limit < 1 and both["median"] == limit) else MISSED
        rows.append(row(what, target, "%s; %s" % (spread(both), BY_NAME[best].title), verdict))
    commands = dig(part, "sneck", "commands")
    if not commands:
        return rows + [row(*names[4:6])]
    return rows + [row(*names[4:6], "%.2f" % commands["median"], at_most(3, commands["median"]))]


def handoff(found):
    ours = dig(found, "handoff", "sneck", "p50_us")
    rows = []
    for key, what in (("paused_p50_us", "hand-off latency / a raw round trip after the same pause of 2 ms"),
                      ("p50_us", "hand-off latency / a raw round trip, one after the other")):
        trip = dig(found, "pair", "ping", key)
        if not ours or not trip:
            rows.append(row(what, "at most 1.5"))
            continue
        value = ours["median"] / trip["median"]
        rows.append(row(what, "at most 1.5", "%.2f (%.0f us / %.0f us)" % (value, ours["median"], trip["median"]),
                        at_most(1.5, value)))
    return rows


def readers(found):
    what, target = "read acquire + release at 10,000 readers / at 1, server time", "at most 1.5"
    part = found.get("readers")
    ours = [dig(part, "sneck", crowd, "script_us") for crowd in ("10000", "1")]
    if not all(ours):
        return [row(what, target)]
    both = ratio(*ours)
    theirs = [dig(part, "redisson-rw", crowd, "script_us") for crowd in ("10000", "1")]
    measured = spread(both)
    if all(theirs):
        measured += "; Redisson %.0f" % ratio(*theirs)["median"]
    return [row(what, target, measured, at_most(1.5, both["median"]))]


def writer(found):
    what, target = "writer's worst wait under a stream of readers / the longest read hold", "at most 2"
    ours = dig(found, "writer", "sneck", "worst_by_longest")
    if not ours:
        return [row(what, target)]
    theirs = dig(found, "writer", "redisson-rw", "worst_by_longest")
    measured = spread(ours) + ("; Redisson %s" % spread(theirs, 0) if theirs else "")
    return [row(what, target, measured, at_most(2, ours["median"]))]


def local(found):
    rows = []
    for part, what, target, limit in (("reentry", "re-entrant pair", "at most 200 ns", 200),
                                      ("linger", "linger: taking it again, a pair", "at most 1 us", 1000)):
        time, commands = dig(found, part, "sneck", "ns"), dig(found, part, "sneck", "commands")
        if time:
            rows.append(row(what, target, spread(time, 0) + " ns", at_most(limit, time["median"])))
        else:
            rows.append(row(what, target))
        if commands:
            rows.append(row(what + ": commands", "0", "%.3g" % commands["median"], at_most(0, commands["median"])))
        else:
            rows.append(row(what + ": commands", "0"))
    recall, trip = dig(found, "linger", "sneck", "recall_us"), dig(found, "pair", "ping", "paused_p50_us")
    what, target = "linger: recall / a raw round trip after a pause", "at most 2"
    if recall and trip:
        value = recall["median"] / trip["median"]
        rows.append(row(what, target, "%.2f (%.0f us)" % (value, recall["median"]), at_most(2, value)))
    else:
        rows.append(row(what, target))
    return rows


def renewal(found):
    part = dig(found, "renewal", "sneck", "100000") or {}
    rows = []
    for key, what, target, limit in (
            ("server_percent", "100,000 held locks: server CPU for renewal", "at most 8 % of a core", 8),
            ("late_s", "100,000 held locks: the latest renewal, after its time", "at most 3 s, a tenth of the lease", 3)):
        value = dig(part, key)
        if value:
            measured = "%.2f %s" % (value["median"], "%" if key == "server_percent" else "s")
            rows.append(row(what, target, measured, at_most(limit, value["median"])))
        else:
            rows.append(row(what, target))
    return rows


def server_time(found):
    what, target = "server time of an uncontended exclusive pair / Redisson's", "at most 1"
    ours, theirs = dig(found, "pair", "sneck", "script_us"), dig(found, "pair", "redisson", "script_us")
    if not ours or not theirs:
        return [row(what, target)]
    both = ratio(ours, theirs)
    measured = "%s (%.1f us, %.1f us)" % (spread(both), median(ours["rounds"]), median(theirs["rounds"]))
    return [row(what, target, measured, at_most(1, both["median"]))]


def table(found):
    pair = against_peers(found, found.get("pair"), ("p50_us",), "lone uncontended pair / the fastest peer", "below 1", 1,
                         True)
    return (lone(found) + [pair] + threads(found) + waits(found) + crowded(found) + handoff(found) + readers(found)
            + writer(found) + local(found) + renewal(found) + server_time(found))
