/* SPDX-License-Identifier: MIT */
package sneck.bench;

import java.io.BufferedReader;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;
import java.util.stream.LongStream;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * The driver of Redisson: RLock, RFairLock and RReadWriteLock. Reads requests, answers each with a line of JSON
 * (see ../../../../../../README.md).
 *
 * <p>System.nanoTime is CLOCK_MONOTONIC on Linux, the clock of the protocol.
 */
public final class Driver {
    private static final int IN_FLIGHT = 256;
    private static final long FIRST_OWNER = 1_000_000;
    private static final long CROWD_LEASE_S = 600;

    private final String peer;
    private final String url;
    private final List<RedissonClient> clients = new ArrayList<>();
    private final List<Runnable> left = new ArrayList<>(); // what `drop` has to do

    private Driver(String peer, String url) {
        this.peer = peer;
        this.url = url;
    }

    private RedissonClient client(int i) {
        while (clients.size() <= i) {
            Config config = new Config();
            config.useSingleServer().setAddress(url);
            clients.add(Redisson.create(config));
        }
        return clients.get(i);
    }

    private RLock lock(RedissonClient client, String name, String mode) {
        switch (peer) {
            case "redisson":
                return client.getLock(name);
            case "redisson-fair":
                return client.getFairLock(name);
            case "redisson-rw":
                return mode.equals("read")
                        ? client.getReadWriteLock(name).readLock()
                        : client.getReadWriteLock(name).writeLock();
            default:
                throw new IllegalArgumentException("there is no peer " + peer);
        }
    }

    private static final class Request {
        final String word;
        private final Map<String, String> values = new HashMap<>();

        Request(String line) {
            String[] words = line.trim().split(" +");
            word = words[0];
            for (int i = 1; i < words.length; i++) {
                String[] pair = words[i].split("=", 2);
                values.put(pair[0], pair[1]);
            }
        }

        String text(String key, String fallback) {
            return values.getOrDefault(key, fallback);
        }

        long number(String key, long fallback) {
            return values.containsKey(key) ? Long.parseLong(values.get(key)) : fallback;
        }
    }

    private static void sleepUntil(long ns) throws InterruptedException {
        TimeUnit.NANOSECONDS.sleep(Math.max(0, ns - System.nanoTime()));
    }

    private static String numbers(long[] numbers, int n) {
        return LongStream.of(numbers).limit(n).mapToObj(Long::toString).collect(Collectors.joining(","));
    }

    private String pair(Request request) {
        RLock lock = lock(client(0), request.text("name", "pair"), request.text("mode", "write"));
        int n = (int) request.number("n", 1000);
        long end = System.nanoTime() + request.number("ms", 60000) * 1_000_000;
        long[] took = new long[n];
        int done = 0;
        for (; done < n && System.nanoTime() < end; done++) {
            long start = System.nanoTime();
            lock.lock();
            lock.unlock();
            took[done] = System.nanoTime() - start;
        }
        return "{\"ns\":[" + numbers(took, done) + "]}";
    }

    private String threads(Request request) throws InterruptedException {
        int n = (int) request.number("threads", 1);
        AtomicBoolean stop = new AtomicBoolean();
        AtomicLong pairs = new AtomicLong();
        CountDownLatch ready = new CountDownLatch(n);
        CountDownLatch start = new CountDownLatch(1);
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < n; i++) {
            RLock lock = lock(client(0), request.text("name", "threads") + "/" + i, "write");
            Thread thread = new Thread(() -> {
                lock.lock();
                lock.unlock();
                ready.countDown();
                await(start);
                long count = 0;
                for (; !stop.get(); count++) {
                    lock.lock();
                    lock.unlock();
                }
                pairs.addAndGet(count);
            });
            thread.start();
            threads.add(thread);
        }
        ready.await();
        long began = System.nanoTime();
        start.countDown();
        Thread.sleep(request.number("ms", 1000));
        stop.set(true);
        for (Thread thread : threads) {
            thread.join();
        }
        return "{\"pairs\":" + pairs.get() + ",\"ns\":" + (System.nanoTime() - began) + "}";
    }

    private static void await(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    /** Under load its calls may throw (no subscription in time, no answer in time). A program would go on. */
    private static boolean succeeds(Runnable call) {
        try {
            call.run();
            return true;
        } catch (RuntimeException error) {
            System.err.println(error);
            return false;
        }
    }

    private String contendAlone(RLock lock, Request request) throws InterruptedException {
        int n = (int) request.number("n", 100);
        long hold = request.number("hold_us", 0);
        long gap = request.number("gap_us", 0);
        long at = request.number("at", System.nanoTime());
        long limit = request.number("limit_ms", 10000) * 1_000_000;
        long[] turns = new long[3 * n];
        int done = 0;
        long errors = 0;
        sleepUntil(at);
        for (; done < n && System.nanoTime() - at < limit; done++) {
            turns[3 * done] = System.nanoTime() - at;
            while (!succeeds(lock::lock)) {
                errors++;
            }
            turns[3 * done + 1] = System.nanoTime() - at;
            TimeUnit.MICROSECONDS.sleep(hold);
            turns[3 * done + 2] = System.nanoTime() - at;
            errors += succeeds(lock::unlock) ? 0 : 1;
            TimeUnit.MICROSECONDS.sleep(gap);
        }
        return "{\"errors\":" + errors + ",\"finish\":" + (System.nanoTime() - at) + ",\"turns\":[" + numbers(turns, 3 * done) + "]}";
    }

    private String contend(Request request) throws InterruptedException {
        int n = (int) request.number("clients", 1);
        String[] found = new String[n];
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < n; i++) {
            int number = i;
            RLock lock = lock(client(i), request.text("name", "contend"), request.text("mode", "write"));
            Thread thread = new Thread(() -> {
                try {
                    found[number] = contendAlone(lock, request);
                } catch (InterruptedException error) {
                    throw new IllegalStateException(error);
                }
            });
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) {
            thread.join();
        }
        return "{\"contenders\":[" + String.join(",", found) + "]}";
    }

    private interface Asynchronous {
        CompletionStage<?> start(long i);
    }

    /** All of them, a bounded number at a time. */
    private static void each(long n, Asynchronous work) throws InterruptedException {
        Semaphore room = new Semaphore(IN_FLIGHT);
        AtomicLong failed = new AtomicLong();
        for (long i = 0; i < n; i++) {
            room.acquire();
            work.start(i).whenComplete((value, error) -> {
                if (error != null) {
                    failed.incrementAndGet();
                }
                room.release();
            });
        }
        room.acquire(IN_FLIGHT);
        if (failed.get() > 0) {
            throw new IllegalStateException(failed.get() + " of " + n + " failed");
        }
    }

    private String hold(Request request) throws InterruptedException {
        long n = request.number("n", 1);
        String name = request.text("name", "hold");
        each(n, i -> lock(client(0), name + "/" + i, "write").lockAsync(FIRST_OWNER));
        left.add(() -> {
            try {
                each(n, i -> lock(client(0), name + "/" + i, "write").unlockAsync(FIRST_OWNER));
            } catch (InterruptedException error) {
                throw new IllegalStateException(error);
            }
        });
        return "{\"held\":" + n + "}";
    }

    /** An owner is a client and a thread's number: another number is another reader. */
    private String crowd(Request request) throws InterruptedException {
        long n = request.number("n", 1);
        RLock lock = lock(client(0), request.text("name", "crowd"), "read");
        each(n, i -> lock.lockAsync(CROWD_LEASE_S, TimeUnit.SECONDS, FIRST_OWNER + i));
        return "{\"held\":" + n + "}";
    }

    private String queue(Request request) throws InterruptedException {
        int n = (int) request.number("n", 64);
        String name = request.text("name", "queue");
        RLock lock = lock(client(0), name, "write");
        lock.lock();
        CountDownLatch passed = new CountDownLatch(n);
        for (int i = 0; i < n; i++) {
            long owner = FIRST_OWNER + i;
            lock.lockAsync(owner).thenRun(() -> lock.unlockAsync(owner).thenRun(passed::countDown));
        }
        while (client(0).getDeque("redisson_lock_queue:{" + name + "}").size() < n) {
            Thread.sleep(5);
        }
        left.add(() -> {
            lock.unlock();
            await(passed);
        });
        return "{\"waiting\":" + n + "}";
    }

    private String drop() {
        left.forEach(Runnable::run);
        left.clear();
        return "{}";
    }

    private String reenter(Request request) {
        long n = request.number("n", 1000);
        RLock lock = lock(client(0), request.text("name", "reenter"), "write");
        lock.lock();
        long start = System.nanoTime();
        for (long i = 0; i < n; i++) {
            lock.lock();
            lock.unlock();
        }
        long took = System.nanoTime() - start;
        lock.unlock();
        return "{\"n\":" + n + ",\"ns\":" + took + "}";
    }

    private String answer(Request request) throws InterruptedException {
        if (request.text("mode", "write").equals("read") && !peer.equals("redisson-rw")) {
            return "{\"unsupported\":true}";
        }
        switch (request.word) {
            case "pair":
                return pair(request);
            case "threads":
                return threads(request);
            case "contend":
                return contend(request);
            case "hold":
                return hold(request);
            case "crowd":
                return crowd(request);
            case "queue":
                return queue(request);
            case "drop":
                return drop();
            case "reenter":
                return reenter(request);
            default:
                return "{\"unsupported\":true}";
        }
    }

    private static String version() throws java.io.IOException {
        Properties properties = new Properties();
        try (InputStream in = Redisson.class.getResourceAsStream("/META-INF/maven/org.redisson/redisson/pom.properties")) {
            if (in != null) {
                properties.load(in);
            }
        }
        return properties.getProperty("version", "unknown") + ", Java " + Runtime.version().feature();
    }

    /** Threads of the clients would keep a program alive that has failed. The last line says why. */
    private static void fail(Thread thread, Throwable error) {
        System.err.println(error);
        Runtime.getRuntime().halt(1);
    }

    public static void main(String[] args) throws Exception {
        Thread.setDefaultUncaughtExceptionHandler(Driver::fail);
        Map<String, String> options = new HashMap<>();
        for (int i = 0; i + 1 < args.length; i += 2) {
            options.put(args[i], args[i + 1]);
        }
        Driver driver = new Driver(options.get("--peer"), options.get("--url"));
        driver.lock(driver.client(0), "bench/open", "write").isLocked();
        System.out.println("{\"version\":\"" + version() + "\"}");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            System.out.println(driver.answer(new Request(line)));
        }
        Runtime.getRuntime().halt(0); // nothing is held; an orderly end takes each client two seconds
    }
}
