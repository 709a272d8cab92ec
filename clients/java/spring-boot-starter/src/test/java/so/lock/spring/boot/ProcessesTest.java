package so.lock.spring.boot;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import so.lock.ServerProcess;
import so.lock.example.ScheduledApplication;

/** {@code @SchedulerLock} in three applications, of which one is killed. */
class ProcessesTest {
    private static final int APPLICATIONS = 3;

    /** A run of the task. */
    private record Event(boolean begin, long pid, long token) {
        static Event of(String text) {
            String[] words = text.split(" ");
            return new Event(words[0].equals("begin"), Long.parseLong(words[1]), Long.parseLong(words[2]));
        }
    }

    private final ServerProcess server = new ServerProcess();
    private final List<Process> applications = new ArrayList<>();

    @AfterEach
    void end() {
        applications.forEach(Process::destroyForcibly);
        server.close();
    }

    private void start() throws IOException {
        File log = Path.of(System.getProperty("lockso.folder"), "application-" + applications.size() + ".log").toFile();
        applications.add(new ProcessBuilder(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(), "-XX:TieredStopAtLevel=1",
                "-XX:+UseSerialGC", "-cp", System.getProperty("java.class.path"), ScheduledApplication.class.getName(),
                "--spring.data.redis.host=" + ServerProcess.HOST, "--spring.data.redis.port=" + server.port(),
                "--lock-so.shedlock.session=true", "--spring.lifecycle.timeout-per-shutdown-phase=100ms")
                .redirectErrorStream(true)
                .redirectOutput(log)
                .start());
    }

    private int count() {
        return Integer.parseInt(server.command("LLEN " + ScheduledApplication.EVENTS));
    }

    private List<Event> events(int from, int to) {
        return IntStream.range(from, to)
                .mapToObj(i -> Event.of(server.command("LINDEX " + ScheduledApplication.EVENTS + " " + i)))
                .toList();
    }

    @Test
    void aTaskRunsOnceAtATimeAlsoAfterItsProcessWasKilled() throws Exception {
        for (int i = 0; i < APPLICATIONS; i++) {
            start();
        }
        List<Event> seen = new ArrayList<>();
        Conditions.await(() -> {
            assertTrue(applications.stream().allMatch(Process::isAlive), "see their logs");
            seen.addAll(events(seen.size(), count()));
            return seen.stream().map(Event::pid).distinct().count() == APPLICATIONS;
        });

        server.command("SET " + ScheduledApplication.BUSY + " 1");
        Conditions.await(() -> server.command("EXISTS " + ScheduledApplication.STUCK).equals("1"));
        long holder = Long.parseLong(server.command("GET " + ScheduledApplication.STUCK));
        applications.stream().filter(one -> one.pid() == holder).forEach(Process::destroyForcibly); // SIGKILL
        long killed = System.nanoTime();
        server.command("DEL " + ScheduledApplication.BUSY);
        int before = count();
        Conditions.await(() -> count() > before);
        System.out.println("free " + (System.nanoTime() - killed) / 1_000_000 + " ms after kill -9, lockAtMostFor 10m");
        Conditions.await(() -> events(before, count()).stream().map(Event::pid).distinct().count() == APPLICATIONS - 1);

        List<Event> all = events(0, count());
        long token = 0;
        for (int i = 0; i < all.size(); i++) {
            Event event = all.get(i);
            if (event.begin()) {
                assertTrue(event.token() > token, "tokens increase");
                token = event.token();
            } else {
                assertEquals(new Event(true, event.pid(), event.token()), all.get(i - 1), "no other run in between");
            }
            if (event.begin() && i > 0 && all.get(i - 1).begin()) {
                assertEquals(holder, all.get(i - 1).pid(), "only the killed one has not ended its run");
            }
        }
    }

    @Test
    void anApplicationThatShutsDownReleasesItsLockAtOnce() throws Exception {
        start();
        server.command("SET " + ScheduledApplication.BUSY + " 1");
        Conditions.await(() -> server.command("EXISTS " + ScheduledApplication.STUCK).equals("1"));
        assertEquals("1", server.command("EXISTS shedlock:report"));
        applications.get(0).destroy(); // SIGTERM
        applications.get(0).waitFor();
        assertEquals("0", server.command("EXISTS shedlock:report"));
    }
}
