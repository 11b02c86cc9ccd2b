# SPDX-License-Identifier: MIT
"""From results to text: the tables of docs/performance.md, its plots, and the table of targets on the terminal.

The document is written by people around blocks that are written here, each between `<!-- bench: NAME -->` and
`<!-- end -->`. Nothing in a block is written by hand, and a test compares them with the results."""
import os
import re

from . import svg, targets
from .peers import ALL, BY_NAME

CONTROL = "control (token through pipes)"


def title(name):
    if name == "control":
        return CONTROL
    return BY_NAME[name].title if name in BY_NAME else name


def cell(figure, digits=1):
    """The median, and how far the rounds lay apart."""
    if not figure:
        return "–"
    if figure["low"] == figure["high"]:
        return short(figure["median"], digits)
    return "%s <sub>%s…%s</sub>" % tuple(short(figure[key], digits) for key in ("median", "low", "high"))


def short(value, digits=1):
    if abs(value) >= 1000:
        return "{:,.0f}".format(value)
    if abs(value) >= 100:
        return "%.0f" % value
    return "%.*f" % (digits, value)


def markdown(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def ranked(part, key, most_first=False):
    known = [name for name in part if key(part[name])]
    return sorted(known, key=lambda name: key(part[name]), reverse=most_first)


def by_median(key):
    return lambda entry: entry[key]["median"] if key in entry else 0


def bold(name):
    return "**sneck**" if name == "sneck" else title(name)


def colour(name):
    if name == "sneck":
        return svg.OURS
    return svg.LIMIT if name == "control" or (name in BY_NAME and BY_NAME[name].limit) else svg.PEER


def bar_rows(part, key, names):
    return [(title(name), part[name][key]["median"], part[name][key]["low"], part[name][key]["high"], colour(name))
            for name in names]


# ---- One function per block: its text, and the plots that belong to it ---------------------------------------------


def conditions(results):
    machine = results["machine"]
    out = ["%s, %s: %d cores of %s, %d GB, %s, load %.1f before the run. Redis %s on 127.0.0.1 (%s), nothing saved; "
           "sneck %s at commit `%s`. A figure is the median of its rounds, the small figures are the lowest and the "
           "highest round."
           % (results["date"], results["form"], machine["cores"], machine["cpu"], machine["memory_gb"],
              machine["kernel"], machine["load_before"], results["redis"], "TCP", results["versions"].get("sneck", "?"),
              results["commit"]), ""]
    rows = []
    for peer in ALL:
        if peer.name in results["missing"]:
            rows.append([peer.title, "**missing**: " + results["missing"][peer.name], peer.settings])
        elif peer.name in results["versions"]:
            rows.append([peer.title, results["versions"][peer.name], peer.settings])
        else:
            rows.append([peer.title, "not in this run", peer.settings])
    out.append(markdown(["who", "version", "settings"], rows).replace("|---:", "|---"))
    for failure in results["failed"]:
        out.append("\n%s failed in `%s`: %s" % (title(failure["peer"]) or "Everybody", failure["part"], failure["reason"]))
    return "\n".join(out), {}


def target_table(results):
    rows = [[row["what"], row["target"], row["measured"], "**missed**" if row["verdict"] == targets.MISSED else
             row["verdict"]] for row in targets.table(results["found"])]
    return markdown(["what", "target", "measured", ""], rows).replace("|---:", "|---"), {}


def pair(results):
    part = results["found"]["pair"]
    names = ranked(part, by_median("p50_us"))
    rows = [[bold(name), cell(part[name].get("p50_us")), cell(part[name].get("p99_us")),
             cell(part[name].get("commands"), 2), cell(part[name].get("server_cpu_us")),
             cell(part[name].get("script_us"))] for name in names]
    plot = svg.bars("Acquire + release, one caller: median time", bar_rows(part, "p50_us", names), "microseconds")
    head = ["acquire + release", "p50, µs", "p99, µs", "commands", "server CPU, µs", "in scripts, µs"]
    return markdown(head, rows), {"pair": plot}


def threads(results):
    part = results["found"]["threads"]
    counts = sorted({int(count) for entry in part.values() for count in entry})
    names = ranked(part, lambda entry: entry["64"]["per_second"]["median"] if "64" in entry else 0, True)
    rows = []
    for name in names:
        entry = part[name]
        rows.append([bold(name)] + [cell(entry.get(str(count), {}).get("per_second"), 0) for count in counts]
                    + [cell(entry["64"].get("client_cpu_us")), cell(entry["64"].get("server_cpu_us"))])
    limit = results["found"].get("benchmark")
    if limit:
        rows.append(["`redis-benchmark -P 16`, the same scripts"] + ["–"] * len(counts) + ["–", "–"])
        rows[-1][1 + counts.index(64)] = cell(limit["per_second"], 0)
    series = {title(name): [(int(count), entry["per_second"]["median"]) for count, entry in part[name].items()]
              for name in names}
    plot = svg.lines("Threads of one client, each on a lock of its own", series, "threads", "pairs per second")
    head = ["pairs per second with"] + ["%d thread%s" % (count, "" if count == 1 else "s") for count in counts]
    head += ["client CPU at 64, µs/pair", "server CPU at 64, µs/pair"]
    return markdown(head, rows), {"threads": plot}


def contend(results):
    out, plots = [], {}
    for shape, part in results["found"]["contend"].items():
        contenders, _, hold, _ = shape.split()
        names = ranked(part, lambda entry: entry["all_worst_ms"])
        rows = [[bold(name), cell(part[name]["per_second"], 0), short(part[name]["all_p50_ms"], 2),
                 short(part[name]["all_p999_ms"], 1), short(part[name]["all_worst_ms"], 1),
                 finish(part[name]), cell(part[name].get("commands"), 2)] for name in names]
        head = ["%s contenders, %s ms hold" % (contenders, hold), "hand-offs/s", "wait p50, ms", "p99.9, ms",
                "worst, ms", "finish, first to last, s", "commands per acquisition"]
        out.append(markdown(head, rows))
        broken = [title(name) for name in names if part[name]["overlaps"]["high"] > 0]
        if broken:
            out.append("Two holders at once were seen of: %s." % ", ".join(broken))
        for name in names:
            errors = sum(part[name]["errors"]["rounds"])
            if errors:
                out.append("%d calls of %s ended with an error, and acquires were tried again." % (errors, title(name)))
        plot_rows = [(title(name), part[name]["all_worst_ms"], part[name]["all_p999_ms"], part[name]["all_worst_ms"],
                      colour(name)) for name in names]
        plots["contend-%s-%s" % (contenders, hold)] = svg.bars(
            "Worst wait: %s contenders, %s ms hold (line: from p99.9)" % (contenders, hold), plot_rows, "milliseconds")
    return "\n\n".join(out), plots


def finish(entry):
    first, last = entry["finish_first_s"]["median"], entry["finish_last_s"]["median"]
    return "%.2f…%.2f" % (first, last)


def handoff(results):
    part = results["found"]["handoff"]
    names = ranked(part, by_median("p50_us"))
    rows = [[bold(name), cell(part[name]["p50_us"]), cell(part[name]["p99_us"]),
             "%.0f %%" % (100 * part[name]["passed_on"]["median"])] for name in names]
    for key, what in (("p50_us", "raw PING, one after the other"), ("paused_p50_us", "raw PING after 2 ms of pause")):
        trip = targets.dig(results["found"], "pair", "ping", key)
        if trip:
            rows.insert(0, [what, cell(trip), "–", "–"])
    plot = svg.bars("From release to the next holder running", bar_rows(part, "p50_us", names), "microseconds, median")
    return markdown(["two processes in turn, 2 ms hold", "p50, µs", "p99, µs", "passed to the other"], rows), \
        {"handoff": plot}


def readers(results):
    part = results["found"]["readers"]
    crowds = sorted({int(crowd) for entry in part.values() for crowd in entry})
    rows = []
    for name, entry in part.items():
        for key, what in (("script_us", "server"), ("p50_us", "caller, p50")):
            rows.append(["%s, %s" % (bold(name), what)] + [cell(entry.get(str(crowd), {}).get(key)) for crowd in crowds])
    series = {title(name): [(int(crowd), values["script_us"]["median"]) for crowd, values in entry.items()]
              for name, entry in part.items()}
    out = markdown(["µs, beside readers:"] + ["{:,}".format(crowd) for crowd in crowds], rows)
    writer = results["found"].get("writer")
    if writer:
        rows = [[bold(name), cell(entry["wait_p50_ms"]), cell(entry["wait_worst_ms"]), cell(entry["longest_read_ms"]),
                 cell(entry["worst_by_longest"], 2), cell(entry["writes"], 0)] for name, entry in writer.items()]
        out += "\n\n" + markdown(["a writer among 4 readers that hold 5 ms", "wait p50, ms", "worst of a round, ms",
                                  "longest read hold, ms", "worst / longest", "writes in 2 s"], rows)
    return out, {"readers": svg.lines("Server time of a read acquire + release", series, "readers", "microseconds")}


def renewal(results):
    part = results["found"]["renewal"]
    rows, series = [], {}
    for name, sizes in part.items():
        for size, entry in sizes.items():
            rows.append([bold(name), "{:,}".format(int(size)), cell(entry["server_cpu_ms"]),
                         cell(entry["server_percent"], 2), cell(entry["client_cpu_ms"]), cell(entry.get("late_s"), 2)])
            series.setdefault(title(name), []).append((int(size), entry["server_cpu_ms"]["median"]))
    head = ["keeping locks", "held", "server CPU per tick of 10 s, ms", "server, % of a core", "client CPU per tick, ms",
            "latest renewal, s after its time"]
    return markdown(head, rows), {"renewal": svg.lines("Keeping held locks: server CPU per tick of 10 s", series,
                                                       "held locks", "milliseconds")}


def local(results):
    rows = []
    for part, what in (("reentry", "re-entrant pair"), ("linger", "pair with linger")):
        for name, entry in results["found"].get(part, {}).items():
            rows.append([bold(name), what, cell(entry["ns"], 0), cell(entry.get("commands"), 2),
                         cell(entry.get("recall_us"))])
    return markdown(["who", "what", "ns", "commands", "recall, µs"], rows), {}


def memory(results):
    part = results["found"]["memory"]
    rows = [[bold(name)] + [cell(part[name].get(what), 0) for what in ("held", "reader", "waiter")]
            for name in ranked(part, by_median("held"))]
    return markdown(["bytes in the server's keys", "per held lock", "per reader", "per waiter"], rows), {}


def command(results):
    part = results["found"]["command"]
    rows = [["**sneck run**" if name == "sneck run" else "`%s`" % name, cell(part[name]["ms"], 2)]
            for name in ranked(part, by_median("ms"))]
    return markdown(["`true` under a lock, fork to exit status", "ms"], rows), {}


BLOCKS = {"conditions": conditions, "targets": target_table, "pair": pair, "threads": threads, "contend": contend,
          "handoff": handoff, "readers": readers, "renewal": renewal, "local": local, "memory": memory,
          "command": command}
NEEDS = {"local": "reentry"}


def render(results):
    """{block: text}, {plot: svg}."""
    texts, plots = {}, {}
    for name, block in BLOCKS.items():
        if name not in ("conditions", "targets") and not results["found"].get(NEEDS.get(name, name)):
            texts[name] = "Not measured in this run."
            continue
        texts[name], more = block(results)
        for plot in more:
            texts[name] += "\n\n![%s](performance/%s.svg)" % (plot, plot)
        plots.update(more)
    return texts, plots


def fill(document, texts):
    def replace(match):
        return "<!-- bench: %s -->\n%s\n<!-- end -->" % (match.group(1), texts[match.group(1)])

    return re.sub(r"<!-- bench: (\w+) -->\n.*?<!-- end -->", replace, document, flags=re.DOTALL)


def files(results, docs):
    """{path: content} of everything that the results say."""
    texts, plots = render(results)
    path = os.path.join(docs, "performance.md")
    with open(path, encoding="utf-8") as file:
        out = {path: fill(file.read(), texts)}
    for name, plot in plots.items():
        out[os.path.join(docs, "performance", name + ".svg")] = plot
    return out


def terminal(results):
    """What a person at the terminal wants to know."""
    lines = []
    for row in targets.table(results["found"]):
        lines.append("%-8s %-76s %-34s %s" % (row["verdict"].upper() if row["verdict"] == targets.MISSED else
                                              row["verdict"], row["what"], row["target"], row["measured"]))
    for name, reason in results["missing"].items():
        lines.append("missing  %s: %s" % (name, reason))
    for failure in results["failed"]:
        lines.append("failed   %s in %s: %s" % (failure["peer"], failure["part"], failure["reason"]))
    return "\n".join(lines)
