package so.lock;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import so.lock.wire.Line;
import so.lock.wire.LinkException;
import so.lock.wire.ServerException;
import so.lock.wire.Wire;

/** A server whose replies come from a test, and which records the commands that it receives. */
final class FakeWire implements Wire {
    /** One received command. */
    record Asked(String node, List<String> words, Thread thread) {
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
        Object answer(Asked asked, FakeLine line) throws LinkException, ServerException;
    }

    private final Server server;
    private final List<Asked> asked = new ArrayList<>();
    final AtomicInteger opened = new AtomicInteger();
    final AtomicInteger refreshed = new AtomicInteger();

    FakeWire(Server server) {
        this.server = server;
    }

    /** Grants and releases every request. */
    static Object kindly(Asked asked) {
        return switch (asked.name()) {
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

    synchronized List<Asked> asked() {
        return List.copyOf(asked);
    }

    /** All commands but watches, without the owner. */
    List<String> texts() {
        return asked().stream()
                .filter(one -> !one.name().equals("WATCH"))
                .map(one -> one.text().replace(" " + one.owner(), ""))
                .toList();
    }

    List<Asked> named(String name) {
        return asked().stream().filter(one -> one.name().equals(name)).toList();
    }

    /** Waits until this number of commands of that name has been received. */
    void await(String name, int count) throws InterruptedException {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
        synchronized (this) {
            while (named(name).size() < count) {
                if (System.nanoTime() - end > 0) {
                    throw new AssertionError(count + " " + name + " were not received: " + asked);
                }
                wait(100);
            }
        }
    }

    @Override
    public String node(String key) {
        return "node";
    }

    @Override
    public Line open(String node) {
        opened.incrementAndGet();
        return new FakeLine(node);
    }

    @Override
    public String where(String node) {
        return "server:6379";
    }

    @Override
    public RuntimeException failure(String text) {
        return new IllegalStateException(text);
    }

    @Override
    public void refresh() {
        refreshed.incrementAndGet();
    }

    @Override
    public void close() {}

    private synchronized void note(Asked one) {
        asked.add(one);
        notifyAll();
    }

    final class FakeLine implements Line {
        final CountDownLatch closed = new CountDownLatch(1);
        final CountDownLatch interrupted = new CountDownLatch(1);
        private final String node;

        FakeLine(String node) {
            this.node = node;
        }

        @Override
        public Object ask(int timeoutMs, List<String> words, Runnable onInterrupt)
                throws LinkException, ServerException {
            Thread asker = Thread.currentThread();
            Asked one = new Asked(node, List.copyOf(words), asker);
            Thread watcher = new Thread(() -> awaitInterrupt(asker, onInterrupt));
            watcher.setDaemon(true);
            if (onInterrupt != null) {
                watcher.start();
            }
            note(one);
            try {
                return server.answer(one, this);
            } finally {
                watcher.interrupt();
            }
        }

        /** As a library does it: the calling thread continues to block, and onInterrupt is called on another thread. */
        private void awaitInterrupt(Thread asker, Runnable onInterrupt) {
            while (!Thread.currentThread().isInterrupted()) {
                if (asker.isInterrupted()) {
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
                Thread.onSpinWait();
            }
        }

        @Override
        public void close() {
            closed.countDown();
        }
    }
}
