package field;

import java.util.ArrayList;
import java.util.List;
import java.util.StringJoiner;
import java.util.Locale;

/** A thread that takes elements and records how late each is. */
final class Taker {
    private final List<Double> late = new ArrayList<>();
    private final List<Double> received = new ArrayList<>();
    private int warm;

    Taker(Delayed queue) {
        Thread thread = new Thread(() -> {
            try {
                while (true) {
                    note(queue.take(), Element.nowMs());
                }
            } catch (InterruptedException ended) {
                Thread.currentThread().interrupt();
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    private synchronized void note(String element, double nowMs) {
        if (Element.letter(element) == 'w') {
            warm++;
        } else {
            late.add(Element.lateMs(element, nowMs));
            received.add(nowMs);
        }
        notifyAll();
    }

    synchronized void awaitWarm(int count) throws InterruptedException {
        while (warm < count) {
            wait();
        }
    }

    /** Waits until `count` elements were taken, or until that time. */
    synchronized void await(int count, double untilMs) throws InterruptedException {
        while (late.size() < count && Element.nowMs() < untilMs) {
            wait(Math.max(1, (long) (untilMs - Element.nowMs())));
        }
    }

    synchronized String lateJson() {
        return json(late);
    }

    synchronized String receivedJson() {
        return json(received);
    }

    private static String json(List<Double> numbers) {
        StringJoiner text = new StringJoiner(",", "[", "]");
        numbers.forEach(number -> text.add(String.format(Locale.ROOT, "%.3f", number)));
        return text.toString();
    }
}
