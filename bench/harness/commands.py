# SPDX-License-Identifier: MIT
"""Commands that run `true` under a lock, and redis-benchmark as the limit of what the server can do."""
import os
import re
import subprocess
import time

from .apart import collect, figures
from .drivers import Driver
from .peers import BY_NAME

# What a careful person writes with redis-cli: no renewal, no queue, no signal handling.
REDIS_CLI_SCRIPT = """set -e
me=$$.$(date +%s%N)
until [ "$(redis-cli -s "$0" SET bench:script "$me" NX PX 30000)" = OK ]; do sleep 0.1; done
true
redis-cli -s "$0" EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) end return 0" \
1 bench:script "$me" >/dev/null
"""


def command(run):
    """(j) From the fork to the exit status."""
    sneck = os.path.join(run.build, "bin", "sneck")
    environment = {**os.environ, "SNECK_URL": run.redis.url, "HOME": run.directory}
    programs = {
        "sneck run": [sneck, "run", "bench/command", "--", "true"],
        "flock(1)": ["flock", os.path.join(run.directory, "command"), "true"],
        "redis-cli script": ["sh", "-c", REDIS_CLI_SCRIPT, run.redis.socket_path],
        "true alone": ["true"],
    }
    if run.etcd:
        environment["ETCDCTL_API"] = "3"
        programs["etcdctl lock"] = [run.installed.etcd_binary("etcdctl"), "--endpoints", run.etcd.url, "lock", "bench",
                                    "true"]
    else:
        run.missing.setdefault("etcdctl", run.missing.get("etcd", "etcd is not a part of this run"))
    values = {}
    end = time.monotonic() + run.schedule.slot("command") * 0.7
    for number in range(-3, 100):
        if number > 15 and time.monotonic() > end:
            break
        if number % 10 == 0:
            run.schedule.say("command: round %d" % (number + 1))
        for name, argv in programs.items():
            took = spawn_ms(argv, environment)
            if number >= 0:
                collect(values.setdefault(name, {}), "ms", took)
    run.found["command"] = {name: figures(rounds) for name, rounds in values.items()}
    run.redis.flush()


def spawn_ms(argv, environment):
    null = [(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)]
    began = time.monotonic_ns()
    pid = os.posix_spawnp(argv[0], argv, environment, file_actions=null)
    _, status = os.waitpid(pid, 0)
    took = (time.monotonic_ns() - began) / 1e6
    if status != 0:
        raise RuntimeError("%s ended with %d" % (argv[0], status))
    return took


HELD = 100000
SENT = 20000


def benchmark(run):
    """The server's limit with sneck's own scripts: redis-benchmark, 16 requests in flight on each of 50 connections. It
    chooses names at random, so acquires go to names out of ten million, and releases to a hundred thousand locks that
    are held; nine of ten of them find theirs."""
    driver = Driver(*run.installed.command(BY_NAME["scripts"], run.redis.url, 1)).ready()
    values = {}
    try:
        driver.ask("pair", n=10, name="benchmark")  # the server knows the scripts then
        words = {op: driver.ask("script", op=op, name="__rand_int__")["words"] for op in ("acquire", "release")}
        for number in run.schedule.rounds("benchmark"):
            run.schedule.say("benchmark: round %d" % (number + 1))
            run.redis.flush()
            acquire = per_second(run, words["acquire"], 10000000)
            run.redis.flush()
            driver.ask("fill", n=HELD)
            release = per_second(run, words["release"], HELD)
            collect(values, "acquires_per_second", acquire)
            collect(values, "releases_per_second", release)
            collect(values, "per_second", 1 / (1 / acquire + 1 / release))
    finally:
        driver.stop()
        run.redis.flush()
    run.found["benchmark"] = figures(values)


def per_second(run, words, names):
    out = subprocess.run(["redis-benchmark", "-p", str(run.redis.port), "-c", "50", "-P", "16", "-n", str(SENT), "-r",
                          str(names), "-q"] + words, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                         check=True).stdout
    return float(re.findall(r"([\d.]+) requests per second", out)[-1])
