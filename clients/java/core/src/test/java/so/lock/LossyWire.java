package so.lock;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;

/** A way to a server on which the reply to a command can be lost, and the connection with it. */
public final class LossyWire implements AutoCloseable {
    private final ServerSocket socket;
    private final int server;
    private volatile String losing;

    public LossyWire(int server) {
        this.server = server;
        try {
            socket = new ServerSocket(0, 10, InetAddress.getByName(ServerProcess.HOST));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        daemon(this::accept);
    }

    public int port() {
        return socket.getLocalPort();
    }

    /** The server gets the next request with that word in it, but its reply does not come through. */
    public void loseReplyTo(String word) {
        losing = word;
    }

    @Override
    public void close() throws IOException {
        socket.close();
    }

    private void accept() {
        try {
            while (true) {
                Socket client = socket.accept();
                Socket far = new Socket(ServerProcess.HOST, server);
                Connection connection = new Connection(client, far);
                daemon(connection::requests);
                daemon(connection::replies);
            }
        } catch (IOException e) {
            return; // it is closed
        }
    }

    private static void daemon(Runnable work) {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        thread.start();
    }

    private final class Connection {
        private final Socket near;
        private final Socket far;
        private volatile boolean lossy;

        Connection(Socket near, Socket far) {
            this.near = near;
            this.far = far;
        }

        void requests() {
            copy(near, far, bytes -> {
                String word = losing;
                if (word != null && bytes.contains(word)) {
                    losing = null;
                    lossy = true;
                }
            });
        }

        void replies() {
            copy(far, near, bytes -> {
                if (lossy) {
                    throw new IOException("lost");
                }
            });
        }

        private void copy(Socket from, Socket to, Look look) {
            byte[] bytes = new byte[1 << 16];
            try (from; to) {
                InputStream in = from.getInputStream();
                OutputStream out = to.getOutputStream();
                for (int count = in.read(bytes); count > 0; count = in.read(bytes)) {
                    look.at(new String(bytes, 0, count, StandardCharsets.ISO_8859_1));
                    out.write(bytes, 0, count);
                }
            } catch (IOException e) {
                return; // and both ends are closed
            }
        }
    }

    private interface Look {
        void at(String bytes) throws IOException;
    }
}
