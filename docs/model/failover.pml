/*
 * One lock, three servers, two clients: can both clients rely on the lock at the same time?
 *
 * This is the protocol behind docs/safety.md. Each claim of that page is checked with this file, with the switches (-D)
 * that docs/model/claims has for it. It is checked again without each of its assumptions, and has to fail then.
 * README.md in this folder explains how to run the model and how to read the results.
 *
 * Time passes in ticks of a second, at any moment that `Time` chooses; so a message may take any time. Every time in
 * this model is in ticks from now, and every tick decreases it by one, down to 0. A server's clock is ahead of the true
 * time by 0 or SKEW, and changes between the two at any tick. A time that a server measures by its clock is stored as
 * ticks + clock, and has not been reached as long as it is more than clock: lasts(). So a time that one server has
 * written and another server reads is interpreted by the clock of the reader, as in reality.
 *
 * Servers. Server 0 begins as the master. A master follows itself. Replicas copy the data of their master some
 * time after it was written, in one step: a partial copy would be the same as an earlier copy. Any replica may be
 * promoted at any time, whether the old master is running or not: a crashed server is one that does nothing any more.
 *
 * Clients send requests to any master, at any time. A client that receives the reply relies on the lock for
 * LEASE - MARGIN ticks from its request. A server executes a request at once; it is the worst case that only the reply
 * takes time.
 */

/* ---- The protections. By default there are none. ---- */

#ifndef REPLICAS
#define REPLICAS 0   /* REPLICAS n, in every acquisition and every renewal */
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
#define PROMOTIONS 0 /* how many times a replica is promoted */
#endif
#ifndef LOSSES
#define LOSSES 0     /* how many times a server restarts without its data */
#endif
#ifndef SKEW
#define SKEW 1       /* how far a server's clock may be ahead */
#endif

/* ---- The assumptions, and the switches that remove them ---- */

#ifndef LEASE
#define LEASE 3      /* the lease; lock.max-lease prevents clients from requesting a longer one */
#endif
#ifdef LONGER_LEASE
#define lease(c) (LEASE + 2 * c)
#else
#define lease(c) LEASE
#endif

#ifndef MARGIN
#define MARGIN 1     /* how much earlier a client stops: the largest SKEW */
#endif
#ifndef LATE
#define LATE 0       /* or how much later, because it measures the lease from the reply */
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

#ifdef ANY_PROMOTED  /* any replica, not the one with the largest offset; 1 and 2 are equivalent, so 1 is the first */
#define promotable(s)  (promotions > 0 || s == 1)
#define offsets_matter false
#else
#define promotable(s)  (s == ahead)
#define offsets_matter true
#endif

#ifdef LEFT_BEHIND   /* a replica may stay with the old master after a promotion, and learn of it at any later time */
#define leaves(r) false
#else
#define leaves(r) (!master(r))
#endif

#ifndef STOPPED
#define STOPPED 0    /* how long a master may be stalled, and then write before it has counted its replicas */
#endif
/* How long a replica counts as good: LAG, + 1 because the lag is in whole seconds, + 2 because that is how long the
 * master relies on its last count. */
#define GOOD (LAG + 1 + 2 + STOPPED)

#ifdef RENEW_ANYTIME /* clients renew on a new master while the old one may still grant */
#define renewable(s) true
#else
#define renewable(s) (quarantine[s] <= LEASE)
#endif

#ifdef SESSION_ANYHOW /* a server renews sessions even if it would refuse a client's write */
#define session_writable(s) true
#else
#define session_writable(s) writable(s)
#endif

/* ---- The state ---- */

#define NOBODY  2
#define NOWHERE 3

/* Of each server: */
byte follows[3];        /* the server whose data it copies; itself: it is a master */
byte clock[3];          /* how far its clock is ahead */
byte owner[3] = NOBODY; /* its data: the client that holds the lock, */
byte end[3];            /* and until when, by the clock */
byte quarantine[3];     /* how long the quarantine will last, by a clock that does not jump */
byte heard[9];          /* [master * 3 + replica]: how long a replica that has left still counts as good, by the clock */

/* Of each client: */
byte counts_on[2];      /* how long it relies on the lock */
bit has[2];             /* it has acquired the lock and not released it; the lease may have expired */
bit asks[2];            /* a server has executed its request, and it has not received the reply yet: */
byte asked[2] = NOWHERE; /* which server that is */
byte got[2];            /* which replicas have acknowledged the request, in bits */
byte would_count[2];    /* what counts_on would be if it received the reply now */

byte promotions, losses; /* how many there were */
byte newest;             /* the server that was promoted last */
byte ahead = NOWHERE;    /* which replica of `newest` has the largest offset */

#define master(s)    (follows[s] == s)
#define lasts(x, s)  ((x) > clock[s])
#define held(s)      (owner[s] != NOBODY && lasts(end[s], s))
#define hears(s, r)  (s != r && follows[r] == s || lasts(heard[s * 3 + r], s))
#define writable(s)  (master(s) && hears(s, 0) + hears(s, 1) + hears(s, 2) >= WRITE_TO)
#define acked(c)     ((got[c] & 1) + (got[c] >> 1 & 1) + (got[c] >> 2) >= REPLICAS)
#define drop(x)      x = (x > 0 -> x - 1 : 0)

#ifdef SESSION
/* With SESSION a client relies on the lock until the server that granted it replies LOST, or its connection closes. */
#define counts(c) (has[c] && asked[c] != NOWHERE && master(asked[c]) && owner[asked[c]] == c && lasts(end[asked[c]], asked[c]))
#define forget_server(c) skip
#else
#define counts(c) (counts_on[c] > 0)
#define forget_server(c) asked[c] = NOWHERE
#endif

/* ---- The claims ---- */

#ifdef TOKENS
/* Every grant has a larger token than all earlier ones, whichever server issues it. */
byte token[3];          /* the last token that a server knows of, in ticks from now + NOW, so that an old one is not below 0 */
byte largest;           /* the largest token of all */
byte since;             /* how long ago it was issued */
#define NOW 2
#define max(a, b) ((a) > (b) -> (a) : (b))
#ifdef UNSPACED         /* a server that does not know the last token may grant before the clocks' difference has passed */
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
/* The two clients never rely on the lock at the same time. */
#define claim assert(!(counts(0) && counts(1)))
#endif

#ifdef POSSIBLE         /* no claim, but what has to be possible: a new master grants the lock that the other client had */
#define possible(c) assert(!(promotions > 0 && asked[c] == newest && !has[c] && has[1 - c]))
#else
#define possible(c) skip
#endif

/* ---- Actions of servers ---- */

inline be_answered(c) {
    possible(c);
    counts_on[c] = (would_count[c] > counts_on[c] -> would_count[c] : counts_on[c]);
    printf("client %d is answered, counts on the lock for %d\n", c, counts_on[c]);
    has[c] = 1; asks[c] = 0; got[c] = 0; would_count[c] = 0;
    forget_server(c);
    claim
}

/* A lease from now. A client without REPLICAS receives the reply at once, which is the worst case. */
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

/* Also when the client does not rely on the lock any more. */
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

/* A replica receives its master's data, and acknowledges it. */
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

/* As long as a replica follows a master, its last acknowledgement is of this moment. */
inline go_to(who, to) {
    if
    :: WRITE_TO > 0 && !master(who) && master(follows[who]) && follows[who] != to ->
        heard[follows[who] * 3 + who] = clock[follows[who]] + GOOD + 1
    :: else
    fi;
    follows[who] = to
}

/* A reply that a server has sent may still be in transit; one that it has not sent is never sent. */
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

/* A server learns which server is the master. */
inline follow(s) {
    atomic {
        s != newest && follows[s] != newest ->
        printf("server %d follows server %d\n", s, newest);
        go_to(s, newest); quarantine[s] = 0; forget(s)
    }
}

/* A server restarts without its data, and keeps its role, master or replica. */
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

/* ---- Events of clients ---- */

inline answer(c) {
    atomic { asks[c] && acked(c) -> be_answered(c) }
}

/* NOREPLICAS, or no reply at all: a server releases the grant again if it can; a renewal remains. */
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
