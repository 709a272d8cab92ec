package so.lock;

import java.util.List;

/**
 * What an error is about.
 *
 * @param text as it is named in texts: {@code fair lock "k"}
 */
record LockName(String text, List<String> keys) {
    static LockName of(String kind, List<String> keys) {
        return new LockName(kind + " " + Texts.quoted(keys), keys);
    }

    @Override
    public String toString() {
        return text;
    }
}
