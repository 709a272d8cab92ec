//! The crate's own connections. Each is used by one request at a time, and kept for the next one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{mpsc, Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use redis::{cmd, Cmd, Connection, RedisResult, Value};

use crate::idle::{Idle, MANY};
use crate::nodes::{connect_within, Name, Nodes, Target, REDIRECTIONS};
use crate::util::{again, checked_by, is_lost, is_slow, left, locked, timed_out, Sent, SHORT};

pub(crate) struct Pool {
    pub nodes: Nodes,
    connected: Arc<AtomicBool>,
    idle: Mutex<Idle<Connection>>,
    /// For each node: how many more connections can be used for short commands, or be opened.
    places: Mutex<HashMap<(Name, bool), Arc<Places>>>,
}

/// The result of a command.
pub(crate) struct Answer {
    pub reply: RedisResult<Value>,
    /// The connection of the reply, if it can be used again.
    pub pooled: Option<Pooled>,
    /// Whether the command was sent, now or before, without a reply.
    pub unsure: bool,
}

/// A connection that is in use. It is closed when this is dropped.
pub(crate) struct Pooled {
    pool: Arc<Pool>,
    name: Name,
    connection: Connection,
    /// The last timeout for replies.
    timeout: Duration,
    /// Of a connection for short commands.
    place: Option<Place>,
}

impl Pooled {
    /// Sends a command, and waits for its reply until `by`. After a connection error it cannot be used any more.
    pub fn query(&mut self, command: &Cmd, by: Instant) -> RedisResult<Value> {
        // In whole milliseconds, which are mostly the same as before.
        let timeout = Duration::from_millis(left(by).as_micros().div_ceil(1000) as u64);
        if timeout.is_zero() {
            return Err(timed_out("the server has not replied in time"));
        }
        if self.timeout != timeout {
            self.connection.set_read_timeout(Some(timeout))?;
            self.timeout = timeout;
        }
        command.query(&mut self.connection)
    }

    /// Keeps it for the next request.
    pub fn keep(self) {
        locked(&self.pool.idle).keep(&self.name, self.place.is_some(), self.connection);
    }
}

impl Pool {
    pub fn new(nodes: Nodes, connected: Arc<AtomicBool>) -> Self {
        Self { nodes, connected, idle: Mutex::default(), places: Mutex::default() }
    }

    /// Sends a short command, which must have a reply at `by`.
    pub fn short(self: &Arc<Self>, key: &[u8], command: &Cmd, by: Instant) -> Answer {
        let is_long = left(by) >= SHORT - SHORT / 10;
        let sending = || Ok(Sent { command: command.clone(), by, is_long });
        let mut answer = self.send(key, by, [true, false], &sending);
        answer.pooled.take().into_iter().for_each(Pooled::keep);
        answer
    }

    /// Sends a command to the node of `key`. The connection must be open at `by`. `sending` is called for each attempt.
    /// A connection for short commands is open before, unless it only `tries`.
    pub fn call(
        self: &Arc<Self>,
        key: &[u8],
        by: Instant,
        tries: bool,
        sending: &dyn Fn() -> RedisResult<Sent>,
    ) -> Answer {
        self.send(key, by, [false, !tries], sending)
    }

    /// Closes the idle connections, and later those that are given back.
    pub fn close(&self) {
        locked(&self.idle).close();
    }

    fn send(
        self: &Arc<Self>,
        key: &[u8],
        by: Instant,
        kind: [bool; 2],
        sending: &dyn Fn() -> RedisResult<Sent>,
    ) -> Answer {
        let mut unsure = false;
        let mut target = match self.target(key, by) {
            Ok(target) => target,
            Err(error) => return Answer { reply: Err(error), pooled: None, unsure },
        };
        let mut redirections = REDIRECTIONS;
        loop {
            let (reply, pooled, is_long) = self.attempt(&target, by, kind, sending, &mut unsure);
            let Err(error) = &reply else { return Answer { reply, pooled, unsure } };
            match self.nodes.redirected(key, error).filter(|_| redirections > 0) {
                Some(other) => {
                    pooled.into_iter().for_each(Pooled::keep);
                    (target, redirections) = (other, redirections - 1);
                }
                None if !again(error) => return Answer { reply, pooled, unsure },
                None => {
                    if !is_slow(error, pooled.is_some(), is_long) {
                        self.nodes.forget(&target.name);
                        pooled.iter().for_each(|_| locked(&self.idle).forget(&target.name));
                    }
                    return Answer { reply, pooled: None, unsure };
                }
            }
        }
    }

    fn attempt(
        self: &Arc<Self>,
        target: &Target,
        by: Instant,
        [is_short, needs_short]: [bool; 2],
        sending: &dyn Fn() -> RedisResult<Sent>,
        unsure: &mut bool,
    ) -> (RedisResult<Value>, Option<Pooled>, bool) {
        loop {
            let is_prepared = !needs_short || locked(&self.idle).is_ready(&target.name);
            let prepared =
                if is_prepared { Ok(()) } else { self.take(&target.name, true, by).map(|(pooled, _)| pooled.keep()) };
            let (mut pooled, is_stale) = match prepared.and_then(|()| self.take(&target.name, is_short, by)) {
                Err(error) => return (Err(error), None, false),
                Ok(taken) => taken,
            };
            if is_stale == Some(true) && pooled.query(&cmd("PING"), checked_by(by)).is_err() {
                locked(&self.idle).forget(&target.name);
                continue;
            }
            let asking = if target.asking { pooled.query(&cmd("ASKING"), by).map(drop) } else { Ok(()) };
            let sent = match asking.and_then(|()| sending()) {
                Err(error) => return (Err(error), Some(pooled), false),
                Ok(sent) => sent,
            };
            let reply = pooled.query(&sent.command, sent.by);
            *unsure |= reply.as_ref().is_err_and(is_lost);
            // An idle connection that was closed shows nothing about the state of the server.
            if is_stale.is_some() && reply.as_ref().is_err_and(|error| error.is_connection_dropped()) {
                locked(&self.idle).forget(&target.name);
                continue;
            }
            return (reply, Some(pooled), sent.is_long);
        }
    }

    /// An idle connection and whether it must be checked, or a new one.
    fn take(self: &Arc<Self>, name: &Name, is_short: bool, by: Instant) -> RedisResult<(Pooled, Option<bool>)> {
        let place = if is_short { Some(self.place(name, true, by)?) } else { None };
        let idle = locked(&self.idle).take(name, is_short);
        match idle {
            Some((connection, is_stale)) => Ok((self.pooled(name, connection, place), Some(is_stale))),
            None => self.connect(name, place, by).map(|pooled| (pooled, None)),
        }
    }

    fn pooled(self: &Arc<Self>, name: &Name, connection: Connection, place: Option<Place>) -> Pooled {
        Pooled { pool: self.clone(), name: name.clone(), connection, timeout: Duration::ZERO, place }
    }

    /// A place for a short command, or to connect.
    fn place(&self, name: &Name, is_short: bool, by: Instant) -> RedisResult<Place> {
        let places = locked(&self.places).entry((name.clone(), is_short)).or_default().clone();
        places.take(by)
    }

    /// Connects by this time. An attempt that is late continues for a while, and its connection is kept: a try over a
    /// slow network has no time to connect, and the next one needs what it began.
    fn connect(self: &Arc<Self>, name: &Name, place: Option<Place>, by: Instant) -> RedisResult<Pooled> {
        let (opening, limit) = (self.place(name, false, by)?, left(by).max(SHORT));
        let (pool, name) = (self.clone(), name.clone());
        let open = move || {
            let _opening = opening;
            let mut connection = connect_within(&pool.nodes.client(&name)?, limit)?;
            if pool.nodes.has_sentinels() {
                pool.nodes.check_role(|| cmd("ROLE").query(&mut connection))?;
            }
            pool.connected.store(true, Ordering::Relaxed);
            Ok(pool.pooled(&name, connection, place))
        };
        in_time(by, open, Pooled::keep)
    }

    fn target(self: &Arc<Self>, key: &[u8], by: Instant) -> RedisResult<Target> {
        if let Some(target) = self.nodes.target(key) {
            return Ok(target);
        }
        let (looking_up, pool) = (self.place(&Name::from(""), false, by)?, self.clone());
        let look_up = move || {
            let _looking_up = looking_up;
            look_up(&pool.nodes)
        };
        in_time(by, look_up, drop)?;
        self.nodes.found(key)
    }
}

/// Queries the cluster or the Sentinels, one server after the other until one replies.
fn look_up(nodes: &Nodes) -> RedisResult<()> {
    let mut last = Err(timed_out("no server is named"));
    for client in nodes.candidates() {
        let reply = connect_within(&client, SHORT / 2).and_then(|mut connection| nodes.query().query(&mut connection));
        last = reply.and_then(|reply| nodes.learn(&client, &reply));
        if last.is_ok() {
            break;
        }
    }
    last
}

/// The result of `work` on a thread, if it returns in time; otherwise it is given to `late` when there is one.
fn in_time<T: Send + 'static>(
    by: Instant,
    work: impl FnOnce() -> RedisResult<T> + Send + 'static,
    late: impl FnOnce(T) + Send + 'static,
) -> RedisResult<T> {
    let (sender, receiver) = mpsc::sync_channel(0);
    thread::Builder::new().spawn(move || {
        if let Err(mpsc::SendError(Ok(result))) = sender.send(work()) {
            late(result);
        }
    })?;
    receiver.recv_timeout(left(by)).unwrap_or_else(|_| Err(timed_out("the server has not replied in time")))
}

/// A semaphore.
struct Places {
    free: Mutex<usize>,
    freed: Condvar,
}

/// What is taken of it, until it is dropped.
struct Place(Arc<Places>);

impl Default for Places {
    fn default() -> Self {
        Self { free: Mutex::new(MANY), freed: Condvar::new() }
    }
}

impl Places {
    fn take(self: Arc<Self>, by: Instant) -> RedisResult<Place> {
        let waited = self.freed.wait_timeout_while(locked(&self.free), left(by), |free| *free == 0);
        let mut free = waited.unwrap_or_else(PoisonError::into_inner).0;
        *free = free.checked_sub(1).ok_or_else(|| timed_out("too many connections are in use"))?;
        drop(free);
        Ok(Place(self))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut free = locked(&self.0.free);
        *free += 1;
        if *free == 1 {
            self.0.freed.notify_all();
        }
    }
}
