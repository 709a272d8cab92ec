package so.lock;

import java.util.List;

/** One request to one server. */
record Single(Locks locks, Request request) implements Target {
    @Override
    public LockName named() {
        return request.named();
    }

    @Override
    public boolean fenced() {
        return request.options().fenced;
    }

    @Override
    public Hold acquire(Attempt attempt) throws InterruptedException, NotAcquiredException {
        Acquisition acquisition = begin(attempt);
        Hold hold = locks.hold(acquisition, request, attempt);
        if (hold == null) {
            fail(acquisition, attempt);
        }
        return hold;
    }

    /** An acquisition that another thread may end, with an owner of its own. */
    Acquisition begin(Attempt attempt) {
        return new Acquisition(locks, request, Locks.newOwner(), request.options().session, attempt);
    }

    /** Throws what an acquisition without a hold ends with; nothing if it is null. */
    void fail(Acquisition acquisition, Attempt attempt) throws NotAcquiredException {
        if (attempt.explained()) {
            throw acquisition.notAcquired();
        } else if (acquisition.failure != null) {
            throw acquisition.failure;
        }
    }

    @Override
    public boolean extend(Hold hold, Attempt attempt) throws InterruptedException {
        return locks.extend((Holding) hold.held, request, attempt);
    }

    @Override
    public void unlock(Hold hold, boolean last) {
        if (last) {
            hold.releaseLast(request);
        } else {
            ((Holding) hold.held).releaseOnly(request);
        }
    }

    @Override
    public boolean isLocked() {
        return request.keys().stream().anyMatch(key -> !Request.holders(inspect(key, "0")).isEmpty());
    }

    @Override
    public LockInfo info() {
        return LockInfo.merged(request.keys().stream().map(key -> LockInfo.of(key, inspect(key, "10"))));
    }

    private Object inspect(String key, String waiters) {
        return new Query(locks, named(), key).send(Request.info(key, waiters));
    }

    /** Not repeated: it could end the next owner's hold. */
    @Override
    public boolean force() {
        return request.keys().stream()
                .map(key -> new Query(locks, named(), key).sendOnce(List.of("LOCK.FORCE", key)))
                .filter(Long.valueOf(1)::equals)
                .count() > 0;
    }
}
