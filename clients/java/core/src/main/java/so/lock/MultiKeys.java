package so.lock;

import java.util.ArrayList;
import java.util.List;

/** The keys of a multi-key lock, each to read or to write: {@code new MultiKeys().read("/").write("/a", "/b")}. */
public final class MultiKeys {
    private final List<String> read = new ArrayList<>();
    private final List<String> write = new ArrayList<>();

    /** Adds keys that are only read: other owners may read them at the same time. Returns this object. */
    public MultiKeys read(String... keys) {
        read.addAll(List.of(keys));
        return this;
    }

    /** Adds keys that are written. A key that is also read counts as written. Returns this object. */
    public MultiKeys write(String... keys) {
        write.addAll(List.of(keys));
        return this;
    }

    /** Those to read come first. */
    Request request(LockOptions options) {
        List<String> keys = new ArrayList<>(read);
        keys.removeAll(write);
        List<String> modes = new ArrayList<>();
        keys.forEach(key -> modes.add("READ"));
        write.forEach(key -> modes.add("WRITE"));
        keys.addAll(write);
        return Request.multi(List.copyOf(keys), List.copyOf(modes), options);
    }
}
