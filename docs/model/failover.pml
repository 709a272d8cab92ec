/*
 * One lock, three servers, two clients: can both clients count on the lock at the same time?
 *
 * The protocol behind docs/safety.md. Each claim of that page is checked with this file, by the switches (-D) that
 * docs/model/claims has for it; and again without each of its assumptions, when it has to fail. README.md beside this
 * file says how to run it and how to read what it finds.
 *
 * Time passes in ticks of a second, whenever `Time` likes; so a message may take any time. Every time here is in ticks
 * from now, and every tick brings it down by one, to 0. A server's clock is ahead of the true time by 0 or SKEW, and
 * changes from one to the other as it likes. What a server reckons by its clock it keeps as ticks + clock, and that is
 * not over yet as long as it is more than clock: lasts(). So a time that one server has written down and another one
 * reads means there what it would mean.
 *
 * Servers. Server 0 begins as the master. Who is a master follows itself. Replicas copy the data of their master some
 * time after it was written, in one step: half a copy is what an earlier copy would have been. Any replica may be
 * promoted at any time, whether the old master lives or not: one that has crashed is one that does nothing any more.
 *
 * Clients ask any master, whenever they like. One that is answered counts on the lock for LEASE - MARGIN ticks from
 * when it asked. A server does what it is asked at once; that only the answer takes time is the worst case.
 */

/* ---- The protections. By default there is none. ---- */

#ifndef REPLICAS
#define REPLICAS 0   /* REPLICAS n, of every acquisition and every renewal */
#endif
#ifndef QUARANTINE
#define QUARANTINE 0 /* lock.quarantine */
#endif
#ifndef WRITE_TO
#define WRITE_TO 0   /* min-replicas-to-write, */
#endif
#define LAG 1        /* and min-replicas-max-lag */

/* ---- What may happen. By default nothing does. ---- */

#ifndef PROMOTIONS
#define PROMOTIONS 0 /* so many times a replica is promoted */
#endif
#ifndef LOSSES
#define LOSSES 0     /* so many times a server restarts without its data */
#endif
#ifndef SKEW
#define SKEW 1       /* how far a server's clock may be ahead */
#endif

/* ---- What is assumed, and the switches that take it out ---- */

#ifndef LEASE
#define LEASE 3      /* the lease; lock.max-lease keeps clients from asking for a longer one */
#endif
#ifdef LONGER_LEASE
#define lease(c) (LEASE + 2 * c)
#else
#define lease(c) LEASE
#endif

#ifndef MARGIN
#define MARGIN 1     /* a client stops so much earlier: as much as SKEW may be */
#endif
#ifndef LATE
#define LATE 0       /* or so much later, because it counts from the answer */
#endif

#ifdef ONE_WITHOUT   /* client 1 acquires without REPLICAS */
#define acquires_without(c) (c == 1)
#else
#define acquires_without(c) (REPLICAS == 0)
#endif
#ifdef RENEW_WITHOUT /* both renew without REPLICAS */
#define renews_without true
#else
#define renews_without (REPLICAS == 0)
#endif

#ifdef ANY_PROMOTED  /* any replica, not the one with the largest offset; 1 and 2 are alike, so 1 is the first */
#define promotable(s)  (promotions > 0 || s == 1)
#define offsets_matter false
#else
#define promotable(s)  (s == ahead)
#define offsets_matter true
#endif

#ifdef LEFT_BEHIND   /* a replica may go on with the old master after a promotion, and be told of it any time later */
#define leaves(r) false
#else
#define leaves(r) (!master(r))
#endif

#ifndef STOPPED
#define STOPPED 0    /* a master may stand still for so long, and then write before it has looked at its replicas */
#endif
/* A replica is a good one for LAG, + 1 as the lag is in whole seconds, + 2 as the master counts on its last look so long. */
#define GOOD (LAG + 1 + 2 + STOPPED)

#ifdef RENEW_ANYTIME /* on a new master clients renew while the old one may still grant */
#define renewable(s) true
#else
#define renewable(s) (quarantine[s] <= LEASE)
#endif

#ifdef SESSION_ANYHOW /* a server renews sessions also where it would refuse a client's write */
#define session_writable(s) true
#else
#define session_writable(s) writable(s)
#endif

/* ---- The state ---- */

#define NOBODY  2
#define NOWHERE 3

/* Of each server: */
byte follows[3];        /* whose data it copies; itself: it is a master */
byte clock[3];          /* how far its clock is ahead */
byte owner[3] = NOBODY; /* its data: who holds the lock, */
byte end[3];            /* and until when, by the clock */
byte quarantine[3];     /* how long it will last, by a clock that does not jump */
byte heard[9];          /* [master * 3 + replica]: how long one that has left is still a good one, by the clock */

/* Of each client: */
byte counts_on[2];      /* how long it counts on the lock */
bit has[2];             /* it has got the lock and not released it; the lease may be over */
bit asks[2];            /* a server has done what it asked for, and it is not answered yet: */
byte asked[2] = NOWHERE; /* by which server */
byte got[2];            /* which replicas have acknowledged it, in bits */
byte would_count[2];    /* what counts_on would be, were it answered now */

byte promotions, losses; /* how many there were */
byte newest;             /* who was promoted last */
byte ahead = NOWHERE;    /* which replica of `newest` has the largest offset */

#define master(s)    (follows[s] == s)
#define lasts(x, s)  ((x) > clock[s])
#define held(s)      (owner[s] != NOBODY && lasts(end[s], s))
#define hears(s, r)  (s != r && follows[r] == s || lasts(heard[s * 3 + r], s))
#define writable(s)  (master(s) && hears(s, 0) + hears(s, 1) + hears(s, 2) >= WRITE_TO)
#define acked(c)     ((got[c] & 1) + (got[c] >> 1 & 1) + (got[c] >> 2) >= REPLICAS)
#define drop(x)      x = (x > 0 -> x - 1 : 0)

#ifdef SESSION
/* With SESSION a client counts on the lock until the server that it asked says LOST, or its connection closes. */
#define counts(c) (has[c] && asked[c] != NOWHERE && master(asked[c]) && owner[asked[c]] == c && lasts(end[asked[c]], asked[c]))
#define forget_server(c) skip
#else
#define counts(c) (counts_on[c] > 0)
#define forget_server(c) asked[c] = NOWHERE
#endif

/* ---- What is claimed ---- */

#ifdef TOKENS
/* Every grant has a larger token than all before it, whoever gives it. */
byte token[3];          /* the last one that a server knows of, in ticks from now + NOW, so that an old one is not below 0 */
byte largest;           /* of all */
byte since;             /* how long ago it was given */
#define NOW 2
#define max(a, b) ((a) > (b) -> (a) : (b))
#ifdef UNSPACED         /* who does not know of the last one need not come later than the clocks differ */
#define token_may(s) (since > 0)
#else
#define token_may(s) (since > 0 && (token[s] == largest || since > SKEW))
#endif
#define new_token(s)  token[s] = max(token[s] + 1, NOW + clock[s]); assert(token[s] > largest); largest = token[s]; since = 0
#define copy_token(s) token[s] = token[follows[s]]
#define lose_token(s) token[s] = 0
#define tick_tokens   drop(token[0]); drop(token[1]); drop(token[2]); drop(largest); since = (since > SKEW -> since : since + 1)
#define claim         skip
#else
#define token_may(s)  true
#define new_token(s)  skip
#define copy_token(s) skip
#define lose_token(s) skip
#define tick_tokens   skip
/* Never do both clients count on the lock. */
#define claim assert(!(counts(0) && counts(1)))
#endif

#ifdef POSSIBLE         /* no claim, but what has to be possible: a new master grants what the other client had taken */
#define possible(c) assert(!(promotions > 0 && asked[c] == newest && !has[c] && has[1 - c]))
#else
#define possible(c) skip
#endif

/* ---- What servers do ---- */

inline be_answered(c) {
    possible(c);
    counts_on[c] = (would_count[c] > counts_on[c] -> would_count[c] : counts_on[c]);
    printf("client %d is answered, counts on the lock for %d\n", c, counts_on[c]);
    has[c] = 1; asks[c] = 0; got[c] = 0; would_count[c] = 0;
    forget_server(c);
    claim
}

/* A lease from now. Who does not ask for replicas is answered at once, which is the worst case. */
inline lease_to(by, to, is_without) {
    end[by] = clock[by] + lease(to);
    would_count[to] = lease(to) - MARGIN + LATE;
    asked[to] = by;
    if
    :: is_without -> be_answered(to)
    :: else -> asks[to] = 1; got[to] = 0
    fi
}

inline grant(s, c) {
    atomic {
        writable(s) && quarantine[s] == 0 && !held(s) && !asks[c] && !counts(c) && token_may(s) ->
        printf("server %d grants to client %d\n", s, c);
        owner[s] = c; has[c] = 0;
        new_token(s);
        lease_to(s, c, acquires_without(c))
    }
}

/* Also when the client does not count on it any more. */
inline renew(s, c) {
    atomic {
        writable(s) && renewable(s) && held(s) && owner[s] == c && has[c] && !asks[c] ->
        printf("server %d renews for client %d\n", s, c);
        lease_to(s, c, renews_without)
    }
}

inline release(s, c) {
    atomic {
        writable(s) && owner[s] == c && counts(c) && !asks[c] ->
        printf("client %d releases on server %d\n", c, s);
        owner[s] = NOBODY; end[s] = 0; counts_on[c] = 0; has[c] = 0
    }
}

/* A replica gets what its master has, and acknowledges it. */
inline copy(s) {
    atomic {
        !master(s) && master(follows[s]) ->
        printf("server %d copies server %d\n", s, follows[s]);
        owner[s] = owner[follows[s]]; end[s] = end[follows[s]]; copy_token(s);
        if :: asks[0] && asked[0] == follows[s] -> got[0] = got[0] | (1 << s) :: else fi;
        if :: asks[1] && asked[1] == follows[s] -> got[1] = got[1] | (1 << s) :: else fi;
        if :: offsets_matter && follows[s] == newest -> ahead = s :: else fi
    }
}

/* As long as a replica follows, its last acknowledgement is of now. */
inline go_to(who, to) {
    if
    :: WRITE_TO > 0 && !master(who) && master(follows[who]) && follows[who] != to ->
        heard[follows[who] * 3 + who] = clock[follows[who]] + GOOD + 1
    :: else
    fi;
    follows[who] = to
}

/* What a server has answered may still be under way; what it has not is never answered. */
inline forget(s) {
    heard[s * 3] = 0; heard[s * 3 + 1] = 0; heard[s * 3 + 2] = 0;
    if :: asked[0] == s && !(asks[0] && acked(0)) -> asked[0] = NOWHERE :: else fi;
    if :: asked[1] == s && !(asks[1] && acked(1)) -> asked[1] = NOWHERE :: else fi
}

inline promote(s) {
    atomic {
        promotions < PROMOTIONS && !master(s) && promotable(s) ->
        printf("server %d is promoted\n", s);
        promotions++; newest = s; ahead = NOWHERE;
        go_to(s, s); quarantine[s] = QUARANTINE;
        if :: leaves(0) -> go_to(0, s) :: else fi;
        if :: leaves(1) -> go_to(1, s) :: else fi;
        if :: leaves(2) -> go_to(2, s) :: else fi
    }
}

/* A server is told who the master is. */
inline follow(s) {
    atomic {
        s != newest && follows[s] != newest ->
        printf("server %d follows server %d\n", s, newest);
        go_to(s, newest); quarantine[s] = 0; forget(s)
    }
}

/* A server restarts without its data, and is what it was, master or replica. */
inline lose(s) {
    atomic {
        losses < LOSSES ->
        printf("server %d restarts without its data\n", s);
        losses++; owner[s] = NOBODY; end[s] = 0; lose_token(s); forget(s);
        if :: master(s) -> quarantine[s] = QUARANTINE :: else fi
    }
}

proctype Server(byte s) {
    do
    :: grant(s, 0)
    :: grant(s, 1)
    :: renew(s, 0)
    :: renew(s, 1)
    :: release(s, 0)
    :: release(s, 1)
    :: copy(s)
    :: promote(s)
    :: follow(s)
    :: lose(s)
    od
}

/* ---- What happens to clients ---- */

inline answer(c) {
    atomic { asks[c] && acked(c) -> be_answered(c) }
}

/* NOREPLICAS, or no answer at all: a server that can takes a grant back; a renewal stands. */
inline give_up(c) {
    atomic {
        asks[c] ->
        printf("client %d is not answered\n", c);
        if
        :: !has[c] && asked[c] != NOWHERE && master(asked[c]) && owner[asked[c]] == c ->
            owner[asked[c]] = NOBODY; end[asked[c]] = 0
        :: true
        fi;
        asks[c] = 0; got[c] = 0; would_count[c] = 0;
        forget_server(c)
    }
}

#ifdef SESSION
inline session(c) {
    atomic {
        counts(c) && session_writable(asked[c]) ->
        printf("server %d renews the session of client %d\n", asked[c], c);
        end[asked[c]] = clock[asked[c]] + LEASE
    }
}
#else
#define session(c) false
#endif

proctype Client(byte c) {
    do
    :: answer(c)
    :: give_up(c)
    :: session(c)
    od
}

/* ---- Time ---- */

inline tick(s) {
    drop(end[s]); drop(quarantine[s]); drop(heard[s * 3]); drop(heard[s * 3 + 1]); drop(heard[s * 3 + 2]);
    if :: end[s] == 0 -> owner[s] = NOBODY :: else fi;
    if :: clock[s] = 0 :: clock[s] = SKEW fi
}

inline tick_client(c) {
    drop(counts_on[c]); drop(would_count[c])
}

proctype Time() {
    do
    :: atomic {
        true -> tick(0); tick(1); tick(2); tick_client(0); tick_client(1); tick_tokens;
        printf("tick; clocks ahead by %d %d %d\n", clock[0], clock[1], clock[2])
    }
    od
}

init {
    atomic { run Server(0); run Server(1); run Server(2); run Client(0); run Client(1); run Time() }
}
