package so.lock;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.Consumer;
import so.lock.internal.LinkException;
import so.lock.internal.ServerException;

/** Several locks, of several servers or slots, which are acquired in one global order: all of them or none. */
record Combined(LockName named, List<Single> members, Consumer<Hold> onLost) implements Target {
    /** Where a member is in the order of all locks. */
    private record Place(Single member, String server, int slot, byte[] key) {
        static final Comparator<Place> ORDER = Comparator.<Place, byte[]>comparing(
                        place -> place.server.getBytes(StandardCharsets.UTF_8), Arrays::compareUnsigned)
                .thenComparing(Place::slot)
                .thenComparing(Place::key, Arrays::compareUnsigned)
                .thenComparing(place -> place.member.request().kind());
    }

    Combined {
        if (members.isEmpty()) {
            throw new IllegalArgumentException("locks must not be empty");
        }
        Set<List<Object>> keys = new HashSet<>();
        for (Single member : members) {
            for (String key : new HashSet<>(member.request().keys())) {
                if (!keys.add(List.of(member.locks(), key))) {
                    throw new IllegalArgumentException("locks: " + Texts.quoted(List.of(key)) + " is in two of them");
                }
            }
        }
    }

    /** Of locks of any kind; those that consist of several are taken apart. */
    static Combined of(List<DistributedLock> locks, Consumer<Hold> onLost) {
        List<Single> members = new ArrayList<>();
        for (DistributedLock lock : locks) {
            if (lock.target() instanceof Single single) {
                members.add(single);
            } else if (lock.target() instanceof Combined combined) {
                members.addAll(combined.members);
            } else {
                throw new IllegalArgumentException("locks: a RedLock cannot be combined");
            }
        }
        return new Combined(named(members), members, onLost);
    }

    private static LockName named(List<Single> members) {
        List<LockName> names = members.stream().map(Single::named).toList();
        return new LockName(String.join(", ", names.stream().map(LockName::text).toList()),
                names.stream().flatMap(name -> name.keys().stream()).toList());
    }

    /** The keys of a multi-key lock by slot; one member if there is only one slot. */
    static Combined bySlot(Locks locks, Request request) {
        Request silent = request.withoutListener();
        List<Single> members = request.keys().stream()
                .map(locks.connections::slot)
                .distinct()
                .map(slot -> new Single(locks, silent.only(key -> locks.connections.slot(key) == slot)))
                .toList();
        return new Combined(request.named(), members, request.options().onLost);
    }

    @Override
    public boolean fenced() {
        return false;
    }

    @Override
    public Hold acquire(Attempt attempt) throws InterruptedException, NotAcquiredException {
        List<Single> ordered = ordered(attempt);
        if (ordered == null) {
            return null;
        }
        Attempt each = attempt.watching(onLost != null);
        do {
            CombinedHolding holding = new CombinedHolding(named, ordered);
            Hold hold = holding.object(onLost);
            if (holding.acquire(each)) {
                return hold;
            } else if (!holding.isBroken()) {
                return null;
            }
        } while (!attempt.isOver());
        return notAcquired(attempt, ordered.get(0), null);
    }

    private static Hold notAcquired(Attempt attempt, Single member, RuntimeException cause) throws NotAcquiredException {
        if (cause != null && (attempt.waitMs() == 0 || !attempt.isOver() || !attempt.explained())) {
            throw cause;
        } else if (attempt.explained()) {
            throw new NotAcquiredException(member.request(), attempt.waitMs(), List.of(), cause, "");
        }
        return null;
    }

    /** In the global order; null if the time has passed before the names of the servers were known. */
    private List<Single> ordered(Attempt attempt) throws InterruptedException, NotAcquiredException {
        List<Place> places = new ArrayList<>();
        for (Single member : members) {
            Connections connections = member.locks().connections;
            List<String> keys = member.request().keys();
            byte[] first = keys.stream()
                    .map(key -> key.getBytes(StandardCharsets.UTF_8))
                    .min(Arrays::compareUnsigned)
                    .orElseThrow();
            try {
                String server = connections.name(member.named(), member.request().key(), attempt);
                places.add(new Place(member, server, connections.slot(keys.get(0)), first));
            } catch (LinkException e) {
                notAcquired(attempt, member, member.locks().failure(member.named(), e));
                return null;
            } catch (ServerException e) {
                throw member.locks().refusal(member.named(), e, keys.get(0));
            }
        }
        places.sort(Place.ORDER);
        return places.stream().map(Place::member).toList();
    }

    @Override
    public boolean isLocked() {
        return members.stream().anyMatch(Single::isLocked);
    }

    @Override
    public LockInfo info() {
        return LockInfo.merged(members.stream().map(Single::info));
    }

    @Override
    public boolean force() {
        return members.stream().filter(Single::force).count() > 0;
    }
}
