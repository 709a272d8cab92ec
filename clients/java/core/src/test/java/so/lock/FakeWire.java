package so.lock;

import java.nio.charset.Charset;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import so.lock.internal.Line;
import so.lock.internal.LinkException;
import so.lock.internal.ServerException;
import so.lock.internal.Wire;

/** A server whose replies come from a test, and which records the commands that it receives. */
final class FakeWire implements Wire {
    /** One received command. */
    record Received(String node, List<String> words, Thread thread) {
        String text() {
            return String.join(" ", words);
        }

        /** The command's name without LOCK. */
        String name() {
            return words.get(0).replace("LOCK.", "");
        }

        String owner() {
            return words.get(name().startsWith("M") ? 1 + Integer.parseInt(words.get(1)) + 1 : 2);
        }
    }

    interface Server {
        Object reply(Received received, FakeLine line) throws LinkException, ServerException;
    }

    /** What happens while a connection is opened. */
    interface Opening {
        void open(String node) throws LinkException;
    }

    private final Server server;
    private final Set<FakeLine> lines = new HashSet<>();
    volatile Opening opening = node -> {};
    volatile Runnable refreshing = () -> {};
    volatile Runnable closing = () -> {};
    volatile int limit = Integer.MAX_VALUE;
    volatile String name = "server";
    volatile int roundTripMs;
    volatile boolean isClosed;
    private final List<Received> received = new ArrayList<>();
    final AtomicInteger opened = new AtomicInteger();
    final AtomicInteger refreshed = new AtomicInteger();

    FakeWire(Server server) {
        this.server = server;
    }

    /** Grants and releases every request. */
    static Object success(Received received) {
        return switch (received.name()) {
            case "RELEASE", "CANCEL" -> 0L;
            case "WATCH" -> watch();
            default -> 1L;
        };
    }

    /**
     * Replies to a watch after a short time, because a reply at once would make the package send it again and again.
     */
    private static Object watch() {
        LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(10));
        return null;
    }

    static LinkException lost() {
        return new LinkException(new IllegalStateException("the connection is lost"));
    }

    synchronized List<Received> received() {
        return List.copyOf(received);
    }

    /** All commands but watches, without the owner. */
    List<String> texts() {
        return received().stream()
                .filter(one -> !one.name().equals("WATCH"))
                .map(one -> one.text().replace(" " + one.owner(), ""))
                .toList();
    }

    List<Received> named(String name) {
        return received().stream().filter(one -> one.name().equals(name)).toList();
    }

    /** Waits until this number of commands of that name has been received. */
    void await(String name, int count) throws InterruptedException {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
        synchronized (this) {
            while (named(name).size() < count) {
                if (System.nanoTime() - end > 0) {
                    throw new AssertionError(count + " " + name + " were not received: " + received);
                }
                wait(100);
            }
        }
    }

    /** The part of the key before a colon, if there is one; that of a question mark is not known. */
    @Override
    public String node(String key) {
        return key.equals("?") ? null : key.contains(":") ? key.substring(0, key.indexOf(':')) : "node";
    }

    @Override
    public Line open(String node, long timeout) throws LinkException, ServerException {
        opened.incrementAndGet();
        opening.open(node);
        FakeLine line = new FakeLine(node);
        synchronized (this) {
            if (lines.size() >= limit) {
                throw new ServerException("ERR max number of clients reached");
            }
            lines.add(line);
        }
        return line;
    }

    /** The connections that are open. */
    synchronized List<FakeLine> lines() {
        return List.copyOf(lines);
    }

    @Override
    public String address(String node) {
        return "server:6379";
    }

    @Override
    public String name() {
        return name;
    }

    /** The number before a slash in the key. */
    @Override
    public int slot(String key) {
        return key.contains("/") ? Integer.parseInt("0" + key.substring(0, key.indexOf('/')).replaceAll("[^0-9]", "")) : 0;
    }

    @Override
    public RuntimeException failure(String text) {
        return new IllegalStateException(text);
    }

    @Override
    public void refresh() {
        refreshed.incrementAndGet();
        refreshing.run();
    }

    @Override
    public void close() {
        LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(50));
        isClosed = true;
    }

    private synchronized void record(Received one) {
        received.add(one);
        notifyAll();
    }

    final class FakeLine implements Line {
        final CountDownLatch closed = new CountDownLatch(1);
        final CountDownLatch interrupted = new CountDownLatch(1);
        private final String node;
        volatile boolean dead;
        volatile int timeoutMs;

        FakeLine(String node) {
            this.node = node;
        }

        @Override
        public Object send(int timeoutMs, List<String> words, Charset charset, Runnable onInterrupt)
                throws LinkException, ServerException {
            Thread sender = Thread.currentThread();
            Received one = new Received(node, List.copyOf(words), sender);
            Thread watcher = new Thread(() -> awaitInterrupt(sender, onInterrupt));
            watcher.setDaemon(true);
            if (onInterrupt != null) {
                watcher.start();
            }
            this.timeoutMs = timeoutMs;
            if (!one.name().equals("PING")) {
                record(one);
            }
            try {
                if (dead) {
                    throw lost();
                }
                LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(Math.min(roundTripMs, timeoutMs)));
                if (roundTripMs > timeoutMs) {
                    throw lost();
                }
                if (one.name().equals("PING")) {
                    return "PONG";
                }
                return server.reply(one, this);
            } finally {
                watcher.interrupt();
            }
        }

        /** As a library does it: the calling thread continues to block, and onInterrupt is called on another thread. */
        private void awaitInterrupt(Thread sender, Runnable onInterrupt) {
            while (!Thread.currentThread().isInterrupted()) {
                if (sender.isInterrupted()) {
                    onInterrupt.run();
                    interrupted.countDown();
                    return;
                }
                Thread.onSpinWait();
            }
        }

        /** Waits, as a blocked command does, until something happens; the connection may close meanwhile. */
        void blockUntil(CountDownLatch happens) throws LinkException {
            while (happens.getCount() > 0) {
                if (closed.getCount() == 0) {
                    throw lost();
                }
                LockSupport.parkNanos(200_000);
            }
        }

        /** There is no reply. */
        LinkException silence() throws LinkException {
            long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(timeoutMs);
            while (System.nanoTime() - end < 0 && closed.getCount() > 0) {
                LockSupport.parkNanos(1_000_000);
            }
            throw lost();
        }

        @Override
        public void close() {
            synchronized (FakeWire.this) {
                lines.remove(this);
            }
            closed.countDown();
            closing.run();
        }
    }
}
