//! RedLock: a lock that more than half of several independent servers have granted. `docs/redlock.md` has the algorithm, and
//! what it cannot promise.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use redis::{cmd, from_redis_value_ref, Cmd, ErrorKind, RedisError, RedisResult, Value};
use uuid::Uuid;

use crate::lock::{Factory, Lock};
use crate::spec::{new_owner, Kind, Spec};
use crate::util::{locked, timed_out};
use crate::{Error, Result};

/// The name by which acquisitions have places of their own: a silent server gets only some, and renewals and releases do
/// not wait for theirs.
pub(crate) const ACQUISITIONS: &str = "acquisitions";

/// Independent servers, of which more than half must grant a lock.
///
/// There must be at least three, with the settings of `docs/redlock.md`. No cluster, no Sentinels and no replica may be
/// among them, and no server twice.
pub struct RedLock<C> {
    pub(crate) servers: Arc<Servers<C>>,
}

/// A lock of a [`RedLock`], which can be acquired any number of times. It is fenced.
#[must_use = "a lock does nothing until it is acquired"]
pub struct MajorityLock<C> {
    pub(crate) servers: Arc<Servers<C>>,
    /// Its settings.
    pub(crate) lock: Lock<C>,
}

impl<C> Clone for RedLock<C> {
    fn clone(&self) -> Self {
        Self { servers: self.servers.clone() }
    }
}

impl<C> Clone for MajorityLock<C> {
    fn clone(&self) -> Self {
        Self { servers: self.servers.clone(), lock: self.lock.clone() }
    }
}

impl<C> fmt::Debug for RedLock<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedLock({} servers)", self.servers.all.len())
    }
}

impl<C> fmt::Debug for MajorityLock<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lock.fmt(f)
    }
}

impl<C> RedLock<C> {
    /// A lock with one holder. Its lease is 10 seconds by default.
    pub fn lock(&self, key: impl AsRef<[u8]>) -> MajorityLock<C> {
        let lock = self.servers.all[0].make(Kind::Lock, vec![key.as_ref().to_vec()]);
        MajorityLock { servers: self.servers.clone(), lock: lock.fenced().lease(Duration::from_secs(10)) }
    }
}

impl<C> MajorityLock<C> {
    /// How long the lock stays held after its holder died; 10 seconds by default. It is renewed after each third of it.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lock = self.lock.lease(lease);
        self
    }

    /// Turns renewal off: the hold ends when its lease expires.
    pub fn no_renewal(mut self) -> Self {
        self.lock = self.lock.no_renewal();
        self
    }

    /// Calls this function once when the lock is lost: when a renewal shows that, or when the lease expires.
    pub fn on_lost(mut self, call: impl Fn() + Send + Sync + 'static) -> Self {
        self.lock.on_lost = Some(Arc::new(call));
        self
    }
}

/// The servers, and what they have said about themselves.
pub(crate) struct Servers<C> {
    pub all: Vec<Factory<C>>,
    /// With the number of connections that had been lost before.
    known: Mutex<Vec<Option<(Identity, u64)>>>,
    /// Whether all were requested to identify themselves, and none was refused.
    pub are_checked: AtomicBool,
}

impl<C> Servers<C> {
    pub fn new(all: Vec<Factory<C>>) -> Result<Arc<Self>> {
        if all.len() < 3 {
            let text = format!("servers: RedLock needs at least three, not {}", all.len());
            return Err(Error::InvalidOption { lock: "RedLock".into(), text });
        }
        let known = Mutex::new(vec![None; all.len()]);
        Ok(Arc::new(Self { all, known, are_checked: AtomicBool::new(false) }))
    }

    /// How many are more than half of them.
    pub fn majority(&self) -> usize {
        self.all.len() / 2 + 1
    }

    /// Whether it has said who it is since the last connection was lost: the next one may lead to another server.
    pub fn is_known(&self, number: usize, losses: u64) -> bool {
        locked(&self.known)[number].as_ref().is_some_and(|(_, before)| *before == losses)
    }

    pub fn forget(&self, number: usize) {
        locked(&self.known)[number] = None;
    }

    /// Stores what a server has said. Refuses one that would fail together with another one, or be counted twice.
    pub fn learn(
        &self,
        number: usize,
        (identity, losses): (Identity, u64),
        name: impl Fn(usize) -> String,
    ) -> Result<()> {
        let mut known = locked(&self.known);
        let others = known.iter().enumerate().filter(|(other, _)| *other != number);
        let conflict = others.filter_map(|(other, known)| Some((other, identity.conflict(&known.as_ref()?.0)?))).next();
        let text = match conflict {
            _ if !identity.is_master => format!("{} is a replica", name(number)),
            Some((other, text)) => format!("{} and {} {text}", name(other.min(number)), name(other.max(number))),
            None => {
                known[number] = Some((identity, losses));
                return Ok(());
            }
        };
        Err(Error::InvalidOption { lock: "RedLock".into(), text: format!("servers: {text}") })
    }
}

/// Who a server is.
#[derive(Clone, Default)]
pub(crate) struct Identity {
    /// Missing if the user may not request it.
    run_id: Option<String>,
    is_master: bool,
    /// The ids of the nodes of its cluster.
    nodes: Vec<String>,
}

impl Identity {
    /// From the replies to [`Identity::questions`].
    pub fn of(replies: [Option<Value>; 3]) -> Self {
        let text = |reply: &Option<Value>| reply.as_ref().and_then(|reply| from_redis_value_ref::<String>(reply).ok());
        let [info, role, nodes] = &replies;
        let run_id =
            text(info).and_then(|info| info.lines().find_map(|line| line.strip_prefix("run_id:").map(str::to_string)));
        let role = role.as_ref().and_then(|role| from_redis_value_ref::<Vec<Value>>(role).ok()?.into_iter().next());
        let nodes = text(nodes).unwrap_or_default();
        let ids = nodes.lines().filter_map(|line| line.split(' ').next()).map(str::to_string);
        Self { run_id, is_master: text(&role).is_none_or(|role| role == "master"), nodes: ids.collect() }
    }

    pub fn questions() -> [Cmd; 3] {
        let (mut info, mut nodes) = (cmd("INFO"), cmd("CLUSTER"));
        info.arg("server");
        nodes.arg("NODES");
        [info, cmd("ROLE"), nodes]
    }

    fn conflict(&self, other: &Self) -> Option<&'static str> {
        if self.run_id.is_some() && self.run_id == other.run_id {
            return Some("are the same server");
        }
        self.nodes.iter().any(|id| other.nodes.contains(id)).then_some("are nodes of one cluster")
    }
}

/// What all servers are requested to do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Request {
    /// To say who they are, which precedes the other requests on a new connection, too.
    Identify,
    Acquire,
    /// With this lease. A server that has lost the lock is requested to grant it again.
    Renew(Duration),
    Release,
}

/// The answer of one server.
pub(crate) enum Vote {
    /// It has granted, renewed or released the lock. After an acquisition: with this token.
    Yes(u64),
    /// Another client holds the lock, or this one does not.
    No,
    /// It has granted the lock to a request that was sent late, or again after it had lost it: another owner may have had
    /// a majority before.
    Regained,
    /// It refuses the command.
    Refused(RedisError),
    /// It has not replied, or is not ready. With true, the request may have been executed.
    Missing(RedisError, bool),
    /// It must not be one of the servers.
    Invalid(Error),
}

/// One owner, its requests and what the servers have granted.
pub(crate) struct Party<C> {
    pub servers: Arc<Servers<C>>,
    pub spec: Arc<Spec>,
    pub owner: String,
    /// When its round began.
    pub began: Instant,
    /// Which servers have a request that has no reply yet: they get no other one.
    pub busy: Arc<Vec<AtomicBool>>,
    /// Each request to a server has one more of it until it has ended, and each release of what was given up.
    pub working: Arc<()>,
    seats: Mutex<Seats>,
}

#[derive(Default)]
struct Seats {
    /// Which servers have held the lock all the time.
    counting: Vec<bool>,
    /// Which servers may hold it.
    held: Vec<bool>,
    /// Which servers were requested to grant it in time.
    timely: Vec<bool>,
    /// With which lease a server that was busy is to be renewed.
    missed: Vec<Option<Duration>>,
    /// The longest lease that was requested.
    lease: Duration,
    is_given_up: bool,
}

impl<C> Party<C> {
    pub fn new(servers: &Arc<Servers<C>>, spec: &Arc<Spec>, busy: &Arc<Vec<AtomicBool>>) -> Arc<Self> {
        let (none, missed) = (vec![false; servers.all.len()], vec![None; servers.all.len()]);
        let (counting, held, timely, lease) = (none.clone(), none.clone(), none, spec.lease);
        let seats = Mutex::new(Seats { counting, held, timely, missed, lease, is_given_up: false });
        let (servers, spec, busy, began) = (servers.clone(), spec.clone(), busy.clone(), Instant::now());
        Arc::new(Self { servers, spec, owner: new_owner(), began, busy, working: Arc::default(), seats })
    }

    /// Begins a request to this server, unless it has another one: then a renewal follows that.
    pub fn occupies(&self, number: usize, request: Request) -> bool {
        let mut seats = locked(&self.seats);
        let was_busy = self.busy[number].swap(true, Ordering::SeqCst);
        seats.missed[number] = match request {
            Request::Renew(lease) if was_busy => Some(lease),
            _ => None,
        };
        !was_busy
    }

    /// The request to this server has ended. Returns the lease of a renewal that is to follow.
    pub fn leaves(&self, number: usize) -> Option<Duration> {
        let mut seats = locked(&self.seats);
        let missed = seats.missed[number].take().filter(|_| !seats.is_given_up);
        if missed.is_none() {
            self.busy[number].store(false, Ordering::SeqCst);
        }
        missed
    }

    /// A server has answered: a late grant counts from the next renewal on. Returns whether it may hold the lock although
    /// that was given up meanwhile.
    pub fn answered(&self, number: usize, request: Request, vote: &Vote) -> bool {
        if !matches!(request, Request::Acquire | Request::Renew(_)) {
            return false;
        }
        let mut seats = locked(&self.seats);
        let is_held = matches!(vote, Vote::Yes(_) | Vote::Regained | Vote::Missing(_, true) | Vote::Invalid(_));
        seats.held[number] |= is_held;
        seats.counting[number] |= request == Request::Acquire && matches!(vote, Vote::Yes(_));
        seats.is_given_up && is_held
    }

    /// An acquisition is about to be sent to this server: not if it was given up, because nothing would release it.
    pub fn acquires(&self, number: usize) -> RedisResult<()> {
        let mut seats = locked(&self.seats);
        if seats.is_given_up {
            return Err((ErrorKind::InvalidClientConfig, "the request was given up").into());
        }
        seats.timely[number] = self.began.elapsed() <= reply_time(self.spec.lease);
        Ok(())
    }

    /// Whether this server was requested to grant it in time.
    pub fn is_timely(&self, number: usize) -> bool {
        locked(&self.seats).timely[number]
    }

    /// A renewal with this lease is about to be sent.
    pub fn asks(&self, lease: Duration) {
        let mut seats = locked(&self.seats);
        seats.lease = seats.lease.max(lease);
    }

    /// How long a server may hold it that cannot be reached.
    pub fn lease(&self) -> Duration {
        locked(&self.seats).lease
    }

    /// From now on it is not requested any more, and late grants are followed by a release. Returns the servers that may
    /// hold it.
    pub fn give_up(&self) -> Vec<usize> {
        let mut seats = locked(&self.seats);
        seats.is_given_up = true;
        (0..seats.held.len()).filter(|&number| seats.held[number]).collect()
    }

    /// Whether no request to a server has an effect any more.
    pub fn is_settled(&self) -> bool {
        Arc::strong_count(&self.working) == 1
    }

    /// The token, if these servers have granted the lock, and they are a majority.
    pub fn elected(&self, votes: &[Option<Vote>]) -> Option<u64> {
        let token = |vote: &Option<Vote>| match vote {
            Some(Vote::Yes(token)) => Some(*token),
            _ => None,
        };
        let granted: Vec<bool> = votes.iter().map(|vote| token(vote).is_some()).collect();
        let is_majority = granted.iter().filter(|granted| **granted).count() >= self.servers.majority();
        locked(&self.seats).counting.iter_mut().zip(granted).for_each(|(counts, granted)| *counts |= granted);
        votes.iter().filter_map(token).max().filter(|_| is_majority)
    }

    /// A server does not hold the lock any more.
    pub fn forgets(&self, number: usize) {
        locked(&self.seats).counting[number] = false;
    }

    /// Whether a majority that has held the lock all the time has renewed it; `None`: there is no such majority any more.
    /// A server that had lost it counts after a renewal by a majority without it.
    pub fn renewed(&self, votes: &[Option<Vote>]) -> Option<bool> {
        let mut seats = locked(&self.seats);
        let is = |vote: &Option<Vote>| matches!(vote, Some(Vote::Yes(_)));
        let count = |seats: &Seats| seats.counting.iter().filter(|counts| **counts).count();
        let renewed = seats.counting.iter().zip(votes).filter(|(counts, vote)| **counts && is(vote)).count();
        if count(&seats) < self.servers.majority() {
            return None;
        }
        let is_renewed = renewed >= self.servers.majority();
        if is_renewed {
            seats.counting.iter_mut().zip(votes).for_each(|(counts, vote)| *counts |= is(vote));
        }
        Some(is_renewed)
    }
}

/// How long each server has to reply, so that dead ones do not use up the lease.
pub(crate) fn reply_time(lease: Duration) -> Duration {
    (lease / 20).clamp(Duration::from_millis(20), Duration::from_secs(1))
}

/// How much earlier a lease ends here than there: clocks differ, and leases end at a whole millisecond.
pub(crate) fn drift(lease: Duration) -> Duration {
    lease / 100 + Duration::from_millis(2)
}

/// The pause after a round that has failed: random, so that two clients do not fail together again.
pub(crate) fn random_pause() -> Duration {
    Duration::from_millis(20 + (Uuid::new_v4().as_u128() % 181) as u64)
}

/// The error of these votes: `Err` if the servers that refuse leave no majority, or one must not be among them; otherwise
/// that of a server that has not replied, if those that have are no majority.
pub(crate) fn judged(votes: Vec<Option<Vote>>, majority: usize) -> std::result::Result<Option<Reason>, Fault> {
    let (total, mut refused, mut missing) = (votes.len(), Vec::new(), Vec::new());
    let mut silent = 0;
    for (number, vote) in votes.into_iter().enumerate() {
        match vote {
            Some(Vote::Invalid(error)) => return Err(Fault::Invalid(error)),
            Some(Vote::Refused(error)) => refused.push((number, error)),
            Some(Vote::Missing(error, _)) => missing.push((number, error)),
            None => silent += 1,
            Some(_) => {}
        }
    }
    if refused.len() > total - majority {
        return Err(Fault::Refused(refused.remove(0)));
    }
    let replied = total - missing.len() - silent;
    Ok((replied < majority).then(|| missing.pop().unwrap_or_else(|| (0, timed_out()))))
}

/// The servers that have replied that another client holds the lock.
pub(crate) fn refusing(votes: &[Option<Vote>]) -> Vec<usize> {
    (0..votes.len()).filter(|&number| matches!(votes[number], Some(Vote::No))).collect()
}

/// How the pause of a keeper has ended.
pub(crate) enum Paused {
    Due,
    /// The lease has changed.
    Woken,
    /// The guard has ended.
    Ended,
}

/// The number of a server, and its error.
pub(crate) type Reason = (usize, RedisError);

/// Why there can be no majority.
pub(crate) enum Fault {
    Invalid(Error),
    Refused(Reason),
}

/// The requests to all servers, and the guard of what they have granted.
macro_rules! redlock {
    ([$($async:ident)?] [$($await:tt)*]) => {
        impl RedLock {
            /// The locks of these servers: at least three.
            ///
            /// # Errors
            ///
            /// [`InvalidOption`](Error::InvalidOption). Whether the servers are different ones is checked when a lock is
            /// acquired.
            pub fn new(servers: impl IntoIterator<Item = Locks>) -> Result<Self> {
                let all: Vec<Locks> = servers.into_iter().collect();
                if all.iter().any(|locks| !locks.core.pool.nodes.is_one()) {
                    let text = String::from("servers: a cluster or a master of Sentinels cannot be one of RedLock's");
                    return Err(Error::InvalidOption { lock: "RedLock".into(), text });
                }
                Ok(Self { servers: Servers::new(all)? })
            }
        }

        impl MajorityLock {
            /// Acquires the lock, and waits for it without a limit. There is no queue: it is requested again after random
            /// pauses.
            ///
            /// # Errors
            ///
            /// [`InvalidOption`](Error::InvalidOption), also if two of the servers are the same, or one is a replica;
            /// [`Connection`](Error::Connection) if no majority has replied for
            /// [`Settings::connect_timeout`](crate::Settings::connect_timeout); the error of the servers, if those that
            /// refuse leave no majority; [`Closed`](Error::Closed) if one of the factories is closed; in threads,
            /// [`Cancelled`](Error::Cancelled).
            pub $($async)? fn lock(&self) -> Result<MajorityGuard> {
                self.acquire(Wait::forever())$($await)*
            }

            /// Acquires the lock if a majority grants it now.
            ///
            /// # Errors
            ///
            /// [`NotAcquired`](Error::NotAcquired) if it does not; those of [`lock`](Self::lock).
            pub $($async)? fn try_lock(&self) -> Result<MajorityGuard> {
                self.acquire(Wait::at_most(Duration::ZERO))$($await)*
            }

            /// Acquires the lock, and waits for it for this time at most.
            ///
            /// # Errors
            ///
            /// [`NotAcquired`](Error::NotAcquired) if no majority has granted it in time; those of [`lock`](Self::lock).
            pub $($async)? fn lock_for(&self, time: Duration) -> Result<MajorityGuard> {
                self.acquire(Wait::at_most(time))$($await)*
            }

            $($async)? fn acquire(&self, wait: Wait) -> Result<MajorityGuard> {
                let (servers, spec) = (&self.servers, Arc::new(self.lock.spec.clone()));
                let busy = Arc::new(servers.all.iter().map(|_| AtomicBool::new(false)).collect());
                let patience = servers.all.iter().map(|locks| locks.core.shared.connect_timeout).max().unwrap_or_default();
                let mut silent = None;
                self.check()?;
                let engaged: Result<Vec<_>> =
                    servers.all.iter().map(|locks| locks.core.shared.engage(&spec)).collect();
                let _engaged = engaged?;
                if !servers.are_checked.load(Ordering::SeqCst) {
                    let by = Instant::now() + reply_time(spec.lease);
                    let by = wait.end().map_or(by, |end| by.min(end + REPLY_TOLERANCE / 2));
                    let votes = poll(&Party::new(servers, &spec, &busy), Request::Identify, by)$($await)*;
                    if let Err(Fault::Invalid(error)) = judged(votes, servers.majority()) {
                        return Err(error);
                    }
                    servers.are_checked.store(true, Ordering::SeqCst);
                }
                loop {
                    self.check()?;
                    let party = Party::new(servers, &spec, &busy);
                    let began = party.began;
                    let mut candidate = Candidate { party: party.clone(), is_elected: false };
                    let by = began + reply_time(spec.lease);
                    let by = wait.end().map_or(by, |end| by.min(end + REPLY_TOLERANCE));
                    let votes = poll(&party, Request::Acquire, by)$($await)*;
                    let until = began + spec.lease.saturating_sub(drift(spec.lease));
                    if let Some(token) = party.elected(&votes).filter(|_| !left(until).is_zero()) {
                        return MajorityGuard::of(&mut candidate, token, began, self.lock.on_lost.clone());
                    }
                    drop(candidate);
                    let held_there = refusing(&votes);
                    let failed = match judged(votes, servers.majority()) {
                        Err(Fault::Invalid(error)) => {
                            servers.are_checked.store(false, Ordering::SeqCst);
                            Some(error)
                        }
                        Err(Fault::Refused(reason)) => Some(because(&party, reason)),
                        Ok(cause) => {
                            silent = cause.as_ref().map(|_| silent.unwrap_or(began));
                            let is_last = wait.only_tries() || silent.is_some_and(|since| since.elapsed() >= patience);
                            match cause {
                                Some(reason) if is_last => Some(because(&party, reason)),
                                cause if wait.has_timed_out() => {
                                    let (lock, waited, holders) = (spec.to_string(), wait.time(), Vec::new());
                                    let cause = cause.map(|(_, error)| error);
                                    Some(Error::NotAcquired(Box::new(NotAcquired { lock, waited, holders, cause })))
                                }
                                _ => None,
                            }
                        }
                    };
                    if let Some(mut error) = failed {
                        let by = wait.return_by();
                        name_holders(&party, &mut error, &held_there, by)$($await)*;
                        settle(&party, by)$($await)*;
                        return Err(error);
                    }
                    let pause = random_pause();
                    sleep(wait.end().map_or(pause, |end| pause.min(left(end))))$($await)*;
                }
            }

            fn check(&self) -> Result<()> {
                for locks in &self.servers.all {
                    locks.core.shared.check(&self.lock.spec)?;
                }
                self.check_cancel()
            }
        }

        /// Sends the same to all servers at once, and returns their votes: of an acquisition when a majority has granted it,
        /// or when a majority has answered and cannot grant it any more; otherwise when all have answered; at `by` at the
        /// latest.
        $($async)? fn poll(party: &Arc<Party<Core>>, request: Request, by: Instant) -> Vec<Option<Vote>> {
            let (sender, mut answers) = channel();
            let mut votes: Vec<Option<Vote>> = party.servers.all.iter().map(|_| None).collect();
            for number in (0..votes.len()).filter(|&number| party.occupies(number, request)) {
                let (party, sender, working) = (party.clone(), sender.clone(), party.working.clone());
                start(Voter { party, number, request, sender, _working: working });
            }
            drop(sender);
            let (mut granted, mut refused) = (0, 0);
            let (total, majority) = (votes.len(), party.servers.majority());
            let is_open = |granted: usize, refused: usize| {
                granted < majority && (refused <= total - majority || granted + refused < majority)
            };
            while request != Request::Acquire || is_open(granted, refused) {
                let Some((number, vote)) = answer(&mut answers, by)$($await)* else { break };
                granted += usize::from(matches!(vote, Vote::Yes(_)));
                refused += usize::from(matches!(vote, Vote::No | Vote::Refused(_) | Vote::Invalid(_)));
                votes[number] = Some(vote);
            }
            votes
        }

        /// Adds the names of the holders on these servers, if the lock was not acquired.
        $($async)? fn name_holders(party: &Party<Core>, error: &mut Error, held_there: &[usize], by: Instant) {
            if !matches!(error, Error::NotAcquired(_)) {
                return;
            }
            let key = party.spec.key();
            for &number in held_there {
                let pool = &party.servers.all[number].core.pool;
                if let Ok(info) = pool.short(key, &Spec::info(key, 0), by)$($await)*.reply {
                    held_by(error, &info);
                }
            }
        }

        /// Waits until `by` for the end of all requests, and of the releases that follow: a program that ends then leaves
        /// nothing behind.
        $($async)? fn settle(party: &Party<Core>, by: Instant) {
            while !party.is_settled() && !left(by).is_zero() {
                sleep(SETTLING.min(left(by)))$($await)*;
            }
        }

        /// The request to one server.
        struct Voter {
            party: Arc<Party<Core>>,
            number: usize,
            request: Request,
            sender: Sender,
            _working: Arc<()>,
        }

        impl Voter {
            $($async)? fn run(self) {
                let (party, number) = (&self.party, self.number);
                let core = &party.servers.all[number].core;
                let mut request = self.request;
                loop {
                    let vote = self.vote(core, request)$($await)*;
                    match vote {
                        Vote::Missing(ref error, _) if !is_busy(error) => party.servers.forget(number),
                        // A name that leads to another server later has lost the lock.
                        Vote::Invalid(_) => party.forgets(number),
                        _ => {}
                    }
                    // A late grant is released behind its reply.
                    if party.answered(number, request, &vote) {
                        free(core, party);
                    }
                    let missed = party.leaves(number);
                    let _ = self.sender.send((number, vote));
                    match missed {
                        Some(lease) => request = Request::Renew(lease),
                        None => break,
                    }
                }
            }

            $($async)? fn vote(&self, core: &Arc<Core>, request: Request) -> Vote {
                if let Err(vote) = self.identify(core)$($await)* {
                    return vote;
                }
                let vote = self.execute(core, request)$($await)*;
                if matches!(vote, Vote::Missing(..)) {
                    return vote;
                }
                // An idle connection may have been replaced by one to another server.
                match self.identify(core)$($await)* {
                    Err(invalid @ Vote::Invalid(_)) => invalid,
                    _ => vote,
                }
            }

            $($async)? fn execute(&self, core: &Arc<Core>, request: Request) -> Vote {
                let (spec, owner) = (&self.party.spec, &self.party.owner);
                let lease = match request {
                    Request::Identify => return Vote::Yes(0),
                    Request::Acquire => {
                        // A server that does not reply gets the release behind the request.
                        let (command, behind) = (spec.acquire(owner, None), spec.release(owner));
                        return match self.acquire(core, &command, Some(&behind))$($await)* {
                            Vote::Yes(_) if !self.party.is_timely(self.number) => Vote::Regained,
                            vote => vote,
                        };
                    }
                    Request::Release => return self.send(core, &spec.release(owner))$($await)*,
                    Request::Renew(lease) => lease,
                };
                match self.send(core, &spec.renew(owner, Some(lease)))$($await)* {
                    Vote::No => {
                        // Also if this vote is late.
                        self.party.forgets(self.number);
                        let again = Spec { lease, ..Spec::clone(spec) }.acquire(owner, None);
                        match self.acquire(core, &again, None)$($await)* {
                            Vote::Yes(_) => Vote::Regained,
                            missing @ Vote::Missing(_, true) => missing,
                            _ => Vote::No,
                        }
                    }
                    vote => vote,
                }
            }

            /// It waits for nothing, so it is a short command: a silent server costs the connections of those at most.
            $($async)? fn send(&self, core: &Arc<Core>, command: &Cmd) -> Vote {
                let by = Instant::now() + SHORT;
                Vote::from(core.pool.short(self.party.spec.key(), command, by)$($await)*)
            }

            /// The same for an acquisition, which must not keep renewals and releases from their connections. `behind` is
            /// sent behind it if it has no reply in time.
            $($async)? fn acquire(&self, core: &Arc<Core>, command: &Cmd, behind: Option<&Cmd>) -> Vote {
                let by = Instant::now() + SHORT;
                let _place = match core.pool.place(&Name::from(ACQUISITIONS), true, by)$($await)* {
                    Err(error) => return Vote::Missing(error, false),
                    Ok(place) => place,
                };
                let sending = || {
                    self.party.acquires(self.number)?;
                    Ok(Sent { command: command.clone(), by, is_long: true, once: false, behind: behind.cloned() })
                };
                let mut answer = core.pool.call(self.party.spec.key(), by, true, &sending)$($await)*;
                answer.pooled.take().into_iter().for_each(Pooled::keep);
                Vote::from(answer)
            }

            /// Requests who the server is, before its first use and after a connection was lost.
            $($async)? fn identify(&self, core: &Arc<Core>) -> std::result::Result<(), Vote> {
                let (servers, key) = (&self.party.servers, self.party.spec.key());
                let losses = core.pool.losses();
                if servers.is_known(self.number, losses) {
                    return Ok(());
                }
                let mut replies = [None, None, None];
                for (reply, question) in replies.iter_mut().zip(Identity::questions()) {
                    match core.pool.short(key, &question, Instant::now() + SHORT)$($await)*.reply {
                        Ok(value) => *reply = Some(value),
                        Err(error) if again(&error) => return Err(Vote::Missing(error, false)),
                        Err(_) => {} // not permitted, or not a cluster
                    }
                }
                let name = |number: usize| servers.all[number].core.pool.nodes.address(key);
                servers.learn(self.number, (Identity::of(replies), losses), name).map_err(Vote::Invalid)
            }
        }

        impl From<Answer> for Vote {
            fn from(Answer { reply, unsure, .. }: Answer) -> Self {
                match judge(reply) {
                    Verdict::Done(number) => Self::Yes(number as u64),
                    Verdict::Null => Self::No,
                    Verdict::Never(error) if is_not_held(&error) => Self::No,
                    // What was sent before may have been executed.
                    Verdict::Never(error) if unsure => Self::Missing(error, true),
                    Verdict::Never(error) => Self::Refused(error),
                    Verdict::Again(error) => Self::Missing(error, unsure),
                }
            }
        }

        /// A request that is given up when this is dropped, unless it has been granted.
        struct Candidate {
            party: Arc<Party<Core>>,
            is_elected: bool,
        }

        impl Drop for Candidate {
            fn drop(&mut self) {
                if !self.is_elected {
                    for number in self.party.give_up() {
                        free(&self.party.servers.all[number].core, &self.party);
                    }
                }
            }
        }

        impl MajorityGuard {
            /// The name of the owner, `host:pid:random`.
            pub fn owner(&self) -> &str {
                &self.party.owner
            }

            /// The lock's key.
            pub fn key(&self) -> &[u8] {
                self.party.spec.key()
            }

            /// The fencing token: the largest one that the servers have issued.
            pub fn token(&self) -> u64 {
                self.hold.token.unwrap_or_default()
            }

            /// Whether the lock is known to be lost: fewer than a majority have held it all the time, or no majority has
            /// renewed it in time.
            pub fn is_lost(&self) -> bool {
                self.hold.is_lost()
            }

            /// Renews the lease now, besides the renewals in the background.
            ///
            /// # Errors
            ///
            /// [`NotHeld`](Error::NotHeld) if it was lost; [`Connection`](Error::Connection) if no majority has replied in
            /// time; [`Refused`](Error::Refused); [`InvalidOption`](Error::InvalidOption) if two of the servers are the
            /// same now.
            pub $($async)? fn renew(&self) -> Result<()> {
                self.renewed(None)$($await)*
            }

            /// The same with another lease, which the hold has from now on.
            ///
            /// # Errors
            ///
            /// Those of [`renew`](Self::renew); [`InvalidOption`](Error::InvalidOption) if it is below a millisecond.
            pub $($async)? fn renew_for(&self, lease: Duration) -> Result<()> {
                self.renewed(Some(capped(lease)))$($await)*
            }

            $($async)? fn renewed(&self, lease: Option<Duration>) -> Result<()> {
                let _woken = Woken(&self.keeping);
                renewed(&self.party, &self.hold, lease)$($await)*
            }

            /// Releases the lock on all servers. Those that do not reply are released in the background, as long as the
            /// lease lasts.
            ///
            /// # Errors
            ///
            /// [`NotHeld`](Error::NotHeld) if the lock was lost before, [`Connection`](Error::Connection) if no majority
            /// has replied, [`Refused`](Error::Refused), [`InvalidOption`](Error::InvalidOption) as from
            /// [`renew`](Self::renew).
            pub $($async)? fn release(mut self) -> Result<()> {
                self.end()$($await)*
            }

            fn of(candidate: &mut Candidate, token: u64, began: Instant, on_lost: Option<OnLost>) -> Result<Self> {
                let party = candidate.party.clone();
                let (spec, owner) = (party.spec.clone(), party.owner.clone());
                let (keeping, stopped, on_lost) = Keeping::new(on_lost);
                let hold = Arc::new(Hold::new(spec, owner, (token as i64, began), false, on_lost).shared());
                hold.confirmed(began);
                candidate.is_elected = true;
                let guard = Self { party, hold, keeping, has_ended: false };
                // Closing one of the factories ends the hold.
                for locks in &guard.party.servers.all {
                    if !locks.core.shared.add(&guard.hold) {
                        return Err(guard.party.spec.closed());
                    }
                }
                keep(Keeper { party: guard.party.clone(), hold: guard.hold.clone(), stopped });
                Ok(guard)
            }

            $($async)? fn end(&mut self) -> Result<()> {
                let (party, ended) = (self.party.clone(), self.hold.end());
                // A server that replies late that it does not hold it must not grant it again.
                let held = party.give_up();
                let by = Instant::now() + reply_time(self.hold.lease());
                let votes = poll(&party, Request::Release, by)$($await)*;
                self.has_ended = true;
                for (number, (locks, vote)) in party.servers.all.iter().zip(&votes).enumerate() {
                    let has_replied = matches!(vote, Some(Vote::Yes(_) | Vote::No | Vote::Refused(_)));
                    if !has_replied && held.contains(&number) {
                        free(&locks.core, &party);
                    }
                    locks.core.shared.remove(&party.owner);
                }
                settle(&party, by.min(Instant::now() + REPLY_TOLERANCE))$($await)*;
                let (majority, total) = (party.servers.majority(), votes.len());
                let lost = votes.iter().filter(|vote| matches!(vote, Some(Vote::No))).count();
                let replied = match failure(&party, votes) {
                    _ if lost > total - majority => Err(party.spec.not_held(REPORTED)),
                    error => error.map_or(Ok(()), Err),
                };
                ended.result(&party.spec, replied)
            }
        }

        impl std::fmt::Debug for MajorityGuard {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut shown = f.debug_struct("MajorityGuard");
                shown.field("owner", &self.owner()).field("is_lost", &self.is_lost()).finish_non_exhaustive()
            }
        }

        /// The error of these votes, if there is one.
        fn failure(party: &Party<Core>, votes: Vec<Option<Vote>>) -> Option<Error> {
            match judged(votes, party.servers.majority()) {
                Ok(reason) => Some(because(party, reason?)),
                Err(Fault::Invalid(error)) => Some(error),
                Err(Fault::Refused(reason)) => Some(because(party, reason)),
            }
        }

        fn because(party: &Party<Core>, (number, error): Reason) -> Error {
            party.spec.error(error, &party.servers.all[number].core.pool.nodes)
        }

        /// Renews the lock on all servers.
        $($async)? fn renewed(party: &Arc<Party<Core>>, hold: &Hold, lease: Option<Duration>) -> Result<()> {
            party.spec.check_renewal(lease)?;
            let mut renewing = begin_renewal(hold)$($await)*;
            hold.check()?;
            let lease = lease.unwrap_or_else(|| hold.lease());
            let began = Instant::now();
            renewing.sends(lease);
            party.asks(lease);
            let votes = poll(party, Request::Renew(lease), began + reply_time(lease))$($await)*;
            match party.renewed(&votes) {
                None => {
                    hold.lost();
                    party.give_up();
                    Err(party.spec.not_held(REPORTED))
                }
                Some(true) => {
                    renewing.confirmed(began, lease);
                    hold.check() // it may have been lost meanwhile
                }
                Some(false) => {
                    let slow = || because(party, (0, timed_out()));
                    Err(failure(party, votes).unwrap_or_else(slow))
                }
            }
        }

        /// What renews a hold, and reports its loss.
        struct Keeper {
            party: Arc<Party<Core>>,
            hold: Arc<Hold>,
            stopped: Stopped,
        }

        impl Keeper {
            $($async)? fn run(mut self) {
                let mut due = self.hold.due();
                while self.hold.is_held() {
                    match pause(&mut self.stopped, due.min(self.hold.until()))$($await)* {
                        Paused::Ended => break,
                        Paused::Woken => due = self.hold.due(),
                        Paused::Due if self.hold.is_expired() => self.hold.expire(),
                        Paused::Due if self.hold.next_renewal().is_none() => due = self.hold.until(),
                        Paused::Due => {
                            due = match renewed(&self.party, &self.hold, None)$($await)* {
                                Ok(()) => self.hold.due(),
                                Err(_) => Instant::now() + self.hold.lease() / 10,
                            };
                        }
                    }
                }
                self.party.give_up();
            }
        }

        /// Wakes what keeps a hold when the renewal by the program has ended, or was dropped.
        struct Woken<'a>(&'a Keeping);

        impl Drop for Woken<'_> {
            fn drop(&mut self) {
                self.0.wake();
            }
        }
    };
}
pub(crate) use redlock;

#[cfg(test)]
mod tests {
    use super::*;

    fn servers() -> Arc<Servers<()>> {
        Servers::new((0..3).map(|_| Factory { core: Arc::new(()) }).collect()).unwrap()
    }

    fn votes(votes: &str) -> Vec<Option<Vote>> {
        let vote = |vote| match vote {
            'y' => Some(Vote::Yes(1)),
            'n' => Some(Vote::No),
            'r' => Some(Vote::Regained),
            _ => None,
        };
        votes.chars().map(vote).collect()
    }

    #[test]
    fn what_was_lost_counts_after_a_majority_without_it() {
        let spec = Arc::new(Spec::new(Kind::Lock, vec![b"a".to_vec()]));
        let party = Party::new(&servers(), &spec, &Arc::default());
        assert_eq!(party.elected(&votes("yn-")), None);
        assert_eq!(party.elected(&votes("yy-")), Some(1));
        assert_eq!(party.renewed(&votes("y--")), Some(false));
        assert_eq!(party.renewed(&votes("y-y")), Some(false), "a late grant does not count yet");
        assert_eq!(party.renewed(&votes("yyy")), Some(true));
        party.forgets(0);
        assert_eq!(party.renewed(&votes("ryy")), Some(true));
        assert_eq!(party.renewed(&votes("yy-")), Some(false), "one of them was lost");
        assert_eq!(party.renewed(&votes("yyy")), Some(true));
        party.forgets(0);
        assert_eq!(party.renewed(&votes("nyy")), Some(true));
        party.forgets(2);
        assert_eq!(party.renewed(&votes("nyr")), None);
    }

    #[test]
    fn what_was_given_up_is_released_where_it_may_be_held() {
        let spec = Arc::new(Spec::new(Kind::Lock, vec![b"a".to_vec()]));
        let busy = Arc::new((0..3).map(|_| AtomicBool::new(false)).collect());
        let party = Party::new(&servers(), &spec, &busy);
        let missing = |unsure| Vote::Missing(timed_out(), unsure);
        let acquired = |number, vote: Vote| party.answered(number, Request::Acquire, &vote);
        assert!(!acquired(0, Vote::Yes(1)) && !acquired(1, Vote::No) && !acquired(2, missing(false)));
        assert_eq!(party.give_up(), [0]);
        assert!(acquired(1, Vote::Yes(1)) && acquired(2, missing(true)) && !acquired(2, Vote::No));
        let renewal = Request::Renew(spec.lease * 2);
        assert!(party.answered(0, renewal, &Vote::Regained) && party.answered(0, renewal, &Vote::Yes(1)));
        assert!(!party.answered(0, Request::Release, &Vote::Yes(1)) && !party.answered(0, renewal, &missing(false)));
        assert_eq!(party.give_up(), [0, 1, 2]);
    }

    #[test]
    fn what_is_requested_late_does_not_count_at_once() {
        let spec = Arc::new(Spec::new(Kind::Lock, vec![b"a".to_vec()]));
        let mut party = Party::new(&servers(), &spec, &Arc::default());
        party.acquires(0).unwrap();
        let began = Instant::now().checked_sub(reply_time(spec.lease) * 2).unwrap();
        Arc::get_mut(&mut party).unwrap().began = began;
        party.acquires(1).unwrap();
        assert!(party.is_timely(0) && !party.is_timely(1));
        party.give_up();
        assert!(party.acquires(2).is_err(), "nothing would release it");
    }

    #[test]
    fn a_busy_server_is_renewed_later() {
        let spec = Arc::new(Spec::new(Kind::Lock, vec![b"a".to_vec()]));
        let busy = Arc::new((0..3).map(|_| AtomicBool::new(false)).collect());
        let party = Party::new(&servers(), &spec, &busy);
        let renewal = Request::Renew(spec.lease * 2);
        assert!(party.occupies(0, Request::Acquire) && !party.occupies(0, renewal));
        assert_eq!(party.leaves(0), Some(spec.lease * 2));
        assert!(!party.occupies(0, Request::Release), "the renewal follows");
        assert_eq!(party.leaves(0), None);
        assert!(party.occupies(0, renewal) && !party.occupies(0, renewal));
        party.give_up();
        assert_eq!(party.leaves(0), None);
        party.asks(spec.lease * 2);
        party.asks(spec.lease);
        assert_eq!(party.lease(), spec.lease * 2);
    }

    #[test]
    fn servers_that_are_one_or_replicas_are_refused() {
        let servers = servers();
        let identity = |run_id: &str, role: &str, nodes: &str| {
            let text = |text: &str| Value::BulkString(text.into());
            let info = format!("redis_mode:standalone\r\nrun_id:{run_id}\r\n");
            Identity::of([Some(text(&info)), Some(Value::Array(vec![text(role)])), Some(text(nodes))])
        };
        let learn = |number, identity| servers.learn(number, (identity, 0), |number| number.to_string());
        learn(0, identity("x", "master", "one a master\ntwo b master\n")).unwrap();
        learn(0, identity("x", "master", "one a master\ntwo b master\n")).unwrap();
        let text = |result: Result<()>| result.unwrap_err().to_string();
        assert_eq!(text(learn(2, identity("x", "master", ""))), "servers: 0 and 2 are the same server");
        assert_eq!(
            text(learn(1, identity("y", "master", "two b master"))),
            "servers: 0 and 1 are nodes of one cluster"
        );
        assert_eq!(text(learn(1, identity("y", "slave", ""))), "servers: 1 is a replica");
        learn(1, Identity::of([None, None, None])).unwrap();
        assert!(servers.is_known(0, 0) && !servers.is_known(0, 1) && !servers.is_known(2, 0));
        servers.forget(0);
        learn(2, identity("x", "master", "")).unwrap();
    }
}
