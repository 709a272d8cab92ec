package so.lock;

import java.util.ArrayList;
import java.util.List;

/** A cluster of masters with the module; each has the same number of slots. */
public final class ClusterProcesses implements AutoCloseable {
    private static final int SLOTS = 16384;

    private final List<ServerProcess> nodes = new ArrayList<>();

    /** @param options those of {@link ServerProcess} */
    public ClusterProcesses(int masters, String... options) {
        for (int i = 0; i < masters; i++) {
            List<String> all = new ArrayList<>(List.of("--cluster-enabled", "yes"));
            all.addAll(List.of(options));
            nodes.add(new ServerProcess(all.toArray(String[]::new)));
        }
        for (int i = 0; i < masters; i++) {
            ServerProcess node = nodes.get(i);
            node.command("CLUSTER ADDSLOTSRANGE " + SLOTS * i / masters + " " + (SLOTS * (i + 1) / masters - 1));
            node.command("CLUSTER SET-CONFIG-EPOCH " + (i + 1));
            node.command("CLUSTER MEET " + ServerProcess.HOST + " " + nodes.get(0).port() + " " + nodes.get(0).bus());
        }
        nodes.forEach(node -> awaitWhole(node, masters));
    }

    private static void awaitWhole(ServerProcess node, int masters) {
        String info = "";
        while (!info.contains("cluster_state:ok") || !info.contains("cluster_known_nodes:" + masters)) {
            info = node.command("CLUSTER INFO");
        }
    }

    public List<ServerProcess> nodes() {
        return nodes;
    }

    public List<Integer> ports() {
        return nodes.stream().map(ServerProcess::port).toList();
    }

    @Override
    public void close() {
        nodes.forEach(ServerProcess::close);
    }
}
