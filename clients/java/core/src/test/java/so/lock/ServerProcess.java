package so.lock;

import java.io.BufferedReader;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A server with the module, on a free port; its folder is in the build folder. */
public final class ServerProcess implements AutoCloseable {
    public static final String HOST = "127.0.0.1";

    private static final int TRIES = 10;

    private final List<String> options;
    private int port;
    private int bus;
    private Process process;

    /** @param options more options of the server, each with two dashes, and their values; a configuration file may be first */
    public ServerProcess(String... options) {
        this.options = List.of(options);
        for (int i = 0; i < TRIES; i++) {
            start();
            if (awaitListening()) {
                return;
            }
            close(); // another process has taken the port
        }
        throw new IllegalStateException("the server has not started; can it load the module?");
    }

    private void start() {
        try {
            port = freePort();
            bus = freePort();
            int file = !options.isEmpty() && !options.get(0).startsWith("--") ? 1 : 0;
            List<String> command = new ArrayList<>(List.of(System.getProperty("lockso.server")));
            command.addAll(options.subList(0, file));
            command.addAll(List.of("--port", Integer.toString(port), "--bind", HOST, "--save", ""));
            command.addAll(List.of("--dir", folder(port)));
            command.addAll(List.of("--cluster-port", Integer.toString(bus)));
            command.addAll(options.subList(file, options.size()));
            command.addAll(List.of("--loadmodule", System.getProperty("lockso.module")));
            process = new ProcessBuilder(command)
                    .redirectErrorStream(true)
                    .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                    .start();
        } catch (IOException e) {
            throw new UncheckedIOException("use -Dlockso.server=redis-server -Dlockso.module=lock.so", e);
        }
    }

    public int port() {
        return port;
    }

    /** The port of the cluster bus. */
    public int bus() {
        return bus;
    }

    /** The reply to a command on a new connection: a status, a number, an error, a string, or null. */
    public String command(String command) {
        try (Socket socket = new Socket(HOST, port)) {
            socket.getOutputStream().write((command + "\r\n").getBytes(StandardCharsets.UTF_8));
            BufferedReader reader =
                    new BufferedReader(new InputStreamReader(socket.getInputStream(), StandardCharsets.ISO_8859_1));
            String first = reader.readLine();
            if (first == null) {
                throw new EOFException("the server has closed the connection");
            }
            if (first.charAt(0) != '$') {
                return first.substring(1);
            }
            char[] text = new char[Math.max(0, Integer.parseInt(first.substring(1)))];
            for (int got = 0; got < text.length;) {
                got += reader.read(text, got, text.length - got);
            }
            return first.equals("$-1") ? null : new String(text);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** The number after an expression at the start of a line of INFO; 0 if there is none. */
    public long info(String section, String field) {
        Matcher found = Pattern.compile("(?m)^" + field + "(\\d+)").matcher(command("INFO " + section));
        return found.find() ? Long.parseLong(found.group(1)) : 0;
    }

    /** The number of waiters. */
    public long waiting() {
        return info("lock", "lock_waiters:");
    }

    @Override
    public void close() {
        process.destroyForcibly();
        try {
            process.waitFor();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** Waits until this server accepts connections. False if another process has the port. */
    private boolean awaitListening() {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
        while (process.isAlive() && System.nanoTime() - end < 0) {
            try {
                if (info("server", "process_id:") == process.pid()) {
                    return true;
                }
            } catch (UncheckedIOException e) {
                Thread.onSpinWait(); // not yet, or another process that closes the connection
            }
        }
        return false;
    }

    private static String folder(int port) throws IOException {
        return Files.createDirectories(Path.of(System.getProperty("lockso.folder"), "server-" + port)).toString();
    }

    /** A port on which no process listens now. */
    public static int freePort() throws IOException {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getByName(HOST))) {
            return socket.getLocalPort();
        }
    }
}
