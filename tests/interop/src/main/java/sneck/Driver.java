/* SPDX-License-Identifier: MIT */
package sneck;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RAtomicLong;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * A program with Redisson that does what it is told. A line on standard input is
 *
 * <pre>WHO VERB OBJECT NAME [number…]</pre>
 *
 * WHO is a thread, made when it is first named: Redisson's owners are threads. The answer is a line that
 * begins with WHO. Objects are lock, fair, fenced, read and write (the sides of a read-write lock).
 */
public final class Driver {
    private static RedissonClient client;

    private Driver() {}

    private static RLock find(String object, String name) {
        switch (object) {
            case "lock":
                return client.getLock(name);
            case "fair":
                return client.getFairLock(name);
            case "fenced":
                return client.getFencedLock(name);
            case "read":
                return client.getReadWriteLock(name).readLock();
            case "write":
                return client.getReadWriteLock(name).writeLock();
            default:
                throw new IllegalArgumentException(object);
        }
    }

    private static String act(String[] word) throws Exception {
        RLock lock = find(word[2], word[3]);
        switch (word[1]) {
            case "lock":
                lock.lock();
                return "ok";
            case "lease": // milliseconds, not renewed
                lock.lock(Long.parseLong(word[4]), TimeUnit.MILLISECONDS);
                return "ok";
            case "try": // milliseconds to wait
                return Boolean.toString(lock.tryLock(Long.parseLong(word[4]), TimeUnit.MILLISECONDS));
            case "unlock":
                lock.unlock();
                return "ok";
            case "force":
                return Boolean.toString(lock.forceUnlock());
            case "count":
                return Integer.toString(lock.getHoldCount());
            case "locked":
                return Boolean.toString(lock.isLocked());
            case "token":
                return Long.toString(((RFencedLock) lock).lockAndGetToken());
            case "mix": // milliseconds, seed
                return mix(word[2], word[3], Long.parseLong(word[4]), Long.parseLong(word[5]));
            default:
                throw new IllegalArgumentException(word[1]);
        }
    }

    /**
     * Take and release for a while. Under the exclusive side a counter is read and written back in two steps;
     * two more tell how many are inside. Answers how often the counter was raised, and how often somebody was
     * inside who must not have been.
     */
    private static String mix(String object, String name, long millis, long seed) throws Exception {
        Random random = new Random(seed);
        RReadWriteLock pair = client.getReadWriteLock(name);
        boolean shared = object.equals("write");
        RLock exclusive = shared ? pair.writeLock() : find(object, name);
        RAtomicLong counter = client.getAtomicLong("mix:counter");
        RAtomicLong readers = client.getAtomicLong("mix:readers");
        RAtomicLong writers = client.getAtomicLong("mix:writers");
        long end = System.nanoTime() + millis * 1_000_000L;
        long raised = 0;
        long wrong = 0;
        while (System.nanoTime() < end) {
            int what = random.nextInt(10);
            if (shared && what < 5) {
                RLock read = pair.readLock();
                if (!read.tryLock(2000, TimeUnit.MILLISECONDS)) {
                    continue;
                }
                readers.incrementAndGet();
                if (what == 0) { // again, and out of it
                    read.lock();
                    read.unlock();
                }
                wrong += writers.get() != 0 ? 1 : 0;
                readers.decrementAndGet();
                read.unlock();
                continue;
            }
            if (!exclusive.tryLock(2000, TimeUnit.MILLISECONDS)) {
                continue;
            }
            if (what == 9) {
                exclusive.lock();
                exclusive.unlock();
            }
            wrong += writers.incrementAndGet() != 1 || readers.get() != 0 ? 1 : 0;
            counter.set(counter.get() + 1);
            raised++;
            boolean down = shared && what == 8;
            if (down) {
                pair.readLock().lock();
                readers.incrementAndGet();
            }
            writers.decrementAndGet();
            exclusive.unlock();
            if (down) {
                wrong += writers.get() != 0 ? 1 : 0;
                readers.decrementAndGet();
                pair.readLock().unlock();
            }
        }
        return raised + " " + wrong;
    }

    private static void say(String line) {
        synchronized (System.out) {
            System.out.println(line);
            System.out.flush();
        }
    }

    private static void answer(String[] word) {
        try {
            say(word[0] + " " + act(word));
        } catch (Throwable thrown) {
            say(word[0] + " error " + thrown.getClass().getSimpleName());
        }
    }

    /** One server, or some nodes of a cluster with commas between them: redis://a:1,b:2. */
    private static void name(Config config, String url) {
        if (url.contains(",")) {
            String[] nodes = url.substring(url.indexOf("//") + 2).split(",");
            for (int i = 0; i < nodes.length; i++) {
                nodes[i] = "redis://" + nodes[i];
            }
            config.useClusterServers().addNodeAddress(nodes).setMasterConnectionMinimumIdleSize(1)
                    .setMasterConnectionPoolSize(8).setSlaveConnectionMinimumIdleSize(1)
                    .setSlaveConnectionPoolSize(4).setSubscriptionConnectionMinimumIdleSize(1)
                    .setSubscriptionConnectionPoolSize(4);
            return;
        }
        config.useSingleServer().setAddress(url).setConnectionMinimumIdleSize(1).setConnectionPoolSize(16)
                .setSubscriptionConnectionMinimumIdleSize(1).setSubscriptionConnectionPoolSize(4);
    }

    public static void main(String[] args) throws Exception {
        Config config = new Config();
        config.setLockWatchdogTimeout(Long.parseLong(args[1]));
        config.setThreads(8).setNettyThreads(4);
        name(config, args[0]);
        client = Redisson.create(config);
        say("ready");
        Map<String, ExecutorService> threads = new HashMap<>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] word = line.split(" ");
            threads.computeIfAbsent(word[0], who -> Executors.newSingleThreadExecutor()).submit(() -> answer(word));
        }
        System.exit(0);
    }
}
