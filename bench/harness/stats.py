# SPDX-License-Identifier: MIT
"""Medians with their spread, and what follows from the turns of contenders."""


def quantile(values, part):
    """The value that `part` of the others do not exceed; interpolated, values need not be sorted."""
    ordered = sorted(values)
    at = part * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def median(values):
    return quantile(values, 0.5)


def figure(values):
    """One figure, taken in several rounds."""
    return {"median": median(values), "low": min(values), "high": max(values), "rounds": [rounded(v) for v in values]}


def rounded(value):
    return float("%.5g" % value)


def ratio(ours, theirs):
    """Round by round: both sides of a round had the same noise."""
    pairs = list(zip(ours["rounds"], theirs["rounds"]))
    return figure([a / b for a, b in pairs if b])


def turns_of(contender):
    flat = contender["turns"]
    return list(zip(flat[0::3], flat[1::3], flat[2::3]))


def waits_ms(contenders):
    return [(got - asked) / 1e6 for contender in contenders for asked, got, _ in turns_of(contender)]


def handoffs_us(contenders):
    """From just before the release to the return of the next one's acquire, where that one waited already."""
    turns = sorted((got, asked, left, who) for who, contender in enumerate(contenders)
                   for asked, got, left in turns_of(contender))
    return [(after[0] - before[2]) / 1e3 for before, after in zip(turns, turns[1:])
            if before[3] != after[3] and after[1] < before[2]]


def overlaps(contenders):
    """Turns that began before the one before them was about to end: a lock that let two in."""
    turns = sorted((got, left) for contender in contenders for _, got, left in turns_of(contender))
    return sum(1 for before, after in zip(turns, turns[1:]) if after[0] < before[1])


def contended(contenders):
    """The figures of one round of contention."""
    turns = sum(len(contender["turns"]) // 3 for contender in contenders)
    finishes = [contender["finish"] / 1e9 for contender in contenders]
    counts = [len(contender["turns"]) // 3 for contender in contenders]
    waits = waits_ms(contenders)
    if not waits:
        raise ValueError("nobody got the lock in time")
    return {
        "turns": turns,
        "per_second": turns / max(finishes),
        "wait_p50_ms": quantile(waits, 0.5),
        "wait_p999_ms": quantile(waits, 0.999),
        "wait_worst_ms": max(waits),
        "finish_first_s": min(finishes),
        "finish_last_s": max(finishes),
        "fewest_turns": min(counts),
        "most_turns": max(counts),
        "overlaps": overlaps(contenders),
        "errors": sum(contender.get("errors", 0) for contender in contenders),
    }
