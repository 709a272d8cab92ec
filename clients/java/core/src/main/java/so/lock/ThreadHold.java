package so.lock;

/** The hold of one thread on one lock, and how often it has locked each mode. Only that thread uses it. */
final class ThreadHold {
    /** A thread and the name of a lock; objects for the same lock have the same name. */
    record Place(Thread thread, String name) {}

    final Hold hold;
    private final int[] counts = new int[2];

    ThreadHold(Hold hold) {
        this.hold = hold;
    }

    int count(int mode) {
        return counts[mode];
    }

    int total() {
        return counts[0] + counts[1];
    }

    void add(int mode, int change) {
        counts[mode] = Math.addExact(counts[mode], change);
    }
}
