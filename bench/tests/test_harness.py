# SPDX-License-Identifier: MIT
"""What the comparison computes from times, on times whose answers are known; and the driver itself, on a server."""
import os
import sys
import unittest

BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, BENCH)
sys.dont_write_bytecode = True

from harness import report, stats, svg, targets  # noqa: E402
from harness.drivers import Driver, Fleet, Unsupported  # noqa: E402
from harness.servers import CommandCounter, RedisServer, encode  # noqa: E402

DRIVER = os.environ.get("SNECK_BENCH_DRIVER")


def contender(*turns):
    return {"finish": turns[-1][2], "turns": [time for turn in turns for time in turn]}


def figure(value):
    return stats.figure([value])


class Statistics(unittest.TestCase):
    def test_quantiles(self):
        self.assertEqual(stats.quantile([3, 1, 2], 0.5), 2)
        self.assertEqual(stats.quantile([0, 10], 0.25), 2.5)
        self.assertEqual(stats.quantile([7], 0.999), 7)

    def test_ratio_is_taken_round_by_round(self):
        ours, theirs = stats.figure([10, 100, 30]), stats.figure([5, 50, 10])
        self.assertEqual(stats.ratio(ours, theirs)["median"], 2)
        self.assertEqual(stats.ratio(ours, theirs)["high"], 3)

    def test_handoffs_count_only_where_the_other_one_waited(self):
        first = contender((0, 0, 1000), (1500, 4000, 5000))
        second = contender((100, 1400, 2000), (9000, 9100, 9200))
        # 1000 to 1400 waited; 2000 to 4000 waited; the last one came later than the release before it.
        self.assertEqual(stats.handoffs_us([first, second]), [0.4, 2.0])

    def test_overlaps(self):
        apart = [contender((0, 0, 10)), contender((0, 10, 20))]
        self.assertEqual(stats.overlaps(apart), 0)
        self.assertEqual(stats.overlaps([contender((0, 0, 10)), contender((0, 9, 20))]), 1)

    def test_contended(self):
        found = stats.contended([contender((0, 1000000, 2000000)), contender((0, 3000000, 4000000), (4, 9000004, 10000000))])
        self.assertEqual(found["turns"], 3)
        self.assertEqual(found["wait_worst_ms"], 9)
        self.assertEqual((found["fewest_turns"], found["most_turns"]), (1, 2))
        self.assertEqual(found["per_second"], 300)


class Report(unittest.TestCase):
    def rows(self, found):
        return {row["what"]: row for row in targets.table(found)}

    def test_what_was_not_measured_is_not_met(self):
        self.assertEqual({row["verdict"] for row in targets.table({})}, {targets.OPEN})

    def test_targets_judge(self):
        found = {"reentry": {"sneck": {"ns": figure(150), "commands": figure(1)}},
                 "pair": {"sneck": {"p50_us": figure(10)}, "scripts": {"p50_us": figure(8)},
                          "redsync": {"p50_us": figure(20)}, "setnx": {"p50_us": figure(1)}}}
        rows = self.rows(found)
        self.assertEqual(rows["re-entrant pair"]["verdict"], targets.MET)
        self.assertEqual(rows["re-entrant pair: commands"]["verdict"], targets.MISSED)
        self.assertEqual(rows["lone uncontended pair / two raw hiredis EVALSHA"]["verdict"], targets.MISSED)
        # The limits are no peers: SET NX alone is faster than any lock.
        self.assertEqual(rows["lone uncontended pair / the fastest peer"]["verdict"], targets.MET)

    def test_blocks_are_replaced_and_the_rest_is_kept(self):
        document = "a\n<!-- bench: pair -->\nold\n<!-- end -->\nb\n<!-- bench: memory -->\n<!-- end -->\n"
        filled = report.fill(document, {"pair": "one\ntwo", "memory": "three"})
        self.assertEqual(filled, "a\n<!-- bench: pair -->\none\ntwo\n<!-- end -->\nb\n<!-- bench: memory -->\nthree\n<!-- end -->\n")
        self.assertEqual(report.fill(filled, {"pair": "one\ntwo", "memory": "three"}), filled)

    def test_every_block_of_the_document_is_known(self):
        texts, _ = report.render({"date": "", "form": "", "commit": "", "redis": "", "versions": {}, "missing": {},
                                  "failed": [], "found": {},
                                  "machine": {"cores": 1, "cpu": "", "memory_gb": 1, "kernel": "", "load_before": 0}})
        with open(os.path.join(BENCH, "..", "docs", "performance.md"), encoding="utf-8") as file:
            report.fill(file.read(), texts)

    def test_plots_show_every_row(self):
        plot = svg.bars("title", [("one", 5, 4, 6, svg.OURS), ("two & three", 50, 50, 50, svg.PEER)], "us")
        self.assertEqual(plot.count("<rect"), 3)  # and the background
        self.assertIn("two &amp; three", plot)


@unittest.skipUnless(DRIVER, "SNECK_BENCH_DRIVER is not set")
class OnAServer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.redis = RedisServer()

    @classmethod
    def tearDownClass(cls):
        cls.redis.stop()

    def driver(self, peer):
        driver = Driver([DRIVER, "--peer", peer, "--url", self.redis.url]).ready()
        self.addCleanup(driver.stop)
        return driver

    def test_pairs_and_their_commands(self):
        for peer, commands in (("sneck", 2), ("scripts", 2), ("setnx", 2), ("ping", 1)):
            driver = self.driver(peer)
            driver.ask("pair", n=1, name="test")
            counter = CommandCounter(self.redis, pings=peer == "ping")
            self.assertEqual(len(driver.ask("pair", n=50, name="test")["ns"]), 50)
            self.assertEqual(counter.stop(), 50 * commands, peer)

    def test_pings_of_idle_clients_are_not_counted(self):
        driver = self.driver("ping")
        counter = CommandCounter(self.redis)
        driver.ask("pair", n=50)
        self.assertEqual(counter.stop(), 0)

    def test_what_lingers_is_taken_again_without_a_command(self):
        driver = self.driver("sneck")
        counts = []
        for number in range(60):
            n = 1001 if number % 2 else 1
            counter = CommandCounter(self.redis)
            self.assertEqual(driver.ask("linger", n=n, name="linger")["n"], n)
            counts.append(counter.stop())
        # A session that does not run for 50 ms between two pairs says that its lock lingers.
        self.assertLessEqual(sum(count != min(counts) for count in counts), 1, counts)
        self.assertEqual(len(driver.ask("recall", n=3, name="recall")["ns"]), 3)

    def test_unknown_requests_are_refused(self):
        with self.assertRaises(Unsupported):
            self.driver("ping").ask("dance")

    def test_contenders_take_turns(self):
        fleet = Fleet([([DRIVER, "--peer", "sneck", "--url", self.redis.url], None)] * 4)
        self.addCleanup(fleet.stop)
        found = stats.contended(fleet.contend(4, 100, n=20, hold_us=500, limit_ms=20000, name="turns"))
        self.assertEqual((found["turns"], found["overlaps"]), (80, 0))

    def test_the_ring_is_a_ring(self):
        ring = self.driver("ping").ask("ring", procs=4, n=5, hold_us=100)["contenders"]
        self.assertEqual([len(contender["turns"]) for contender in ring], [15] * 4)

    def test_held_locks_are_there_until_dropped(self):
        driver = self.driver("sneck")
        self.redis.flush()
        driver.ask("hold", n=300, name="many")
        keys = [key for key in self.redis.keys() if "many/" in key]
        self.assertEqual(len(keys), 300)
        self.assertGreater(min(self.redis.pipeline(b"".join(encode("PTTL", key) for key in keys))), 0)
        self.assertGreater(self.redis.bytes_in_keys(), 300 * 50)
        driver.ask("drop")
        # A lock remembers its last token for a while; a held one has a holder.
        self.assertEqual({self.redis.call("ZCARD", key) for key in keys}, {1})


if __name__ == "__main__":
    unittest.main(verbosity=2)
