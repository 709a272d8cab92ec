//! The crate's own connections. Each is used by one request at a time, and kept for the next one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{mpsc, Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use redis::{cmd, Client, Cmd, Connection, ErrorKind, RedisResult, Value};

use crate::nodes::{connect_within, Name, Nodes, Target, REDIRECTIONS};
use crate::util::{again, checked_by, is_full, left, locked, timed_out, SHORT, STALE};

/// How many connections of each kind to a node are kept; how many are opened at a time; and how many are used for short
/// commands.
const MANY: usize = 16;

pub(crate) struct Pool {
    pub nodes: Nodes,
    connected: Arc<AtomicBool>,
    state: Mutex<State>,
    /// Notified when a connection for short commands is free, or an attempt to connect has ended.
    freed: Condvar,
}

#[derive(Default)]
struct State {
    nodes: HashMap<Name, Node>,
    is_closed: bool,
}

/// The connections to a node. At least one is kept for short commands, so that what waits for a lock never takes the last
/// connection that the server accepts from what releases it.
#[derive(Default)]
struct Node {
    /// Idle connections, with the time since when they are.
    any: Vec<(Connection, Instant)>,
    short: Vec<(Connection, Instant)>,
    /// How many connections are in use for short commands.
    used: usize,
    /// How many attempts to connect are in progress: for waits, for short commands.
    opening: [usize; 2],
}

impl Node {
    /// Whether it has a connection for short commands.
    fn is_ready(&self) -> bool {
        self.used > 0 || !self.short.is_empty()
    }

    fn take(&mut self, is_short: bool) -> Option<(Connection, Instant)> {
        if is_short {
            self.short.pop().or_else(|| self.any.pop())
        } else {
            self.any.pop().or_else(|| if self.short.len() > 1 { self.short.pop() } else { None })
        }
    }
}

/// A command, and by when its reply must have been received. Without a reply by then the server is considered
/// unresponsive, if `is_long`.
pub(crate) struct Sent {
    pub command: Cmd,
    pub by: Instant,
    pub is_long: bool,
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
    connection: Option<Connection>,
    /// The last timeout for replies.
    timeout: Duration,
    is_short: bool,
}

impl Drop for Pooled {
    fn drop(&mut self) {
        if self.is_short {
            let mut state = locked(&self.pool.state);
            let node = state.node(&self.name);
            node.used -= 1;
            if node.used + node.opening[1] + 1 >= MANY {
                self.pool.freed.notify_all();
            }
        }
    }
}

impl State {
    fn node(&mut self, name: &Name) -> &mut Node {
        self.nodes.entry(name.clone()).or_default()
    }
}

impl Pooled {
    /// Sends a command, and waits for its reply until `by`. After a connection error it cannot be used any more.
    pub fn query(&mut self, command: &Cmd, by: Instant) -> RedisResult<Value> {
        let Some(connection) = &mut self.connection else { return Err(timed_out("there is no connection")) };
        // In whole milliseconds, which are mostly the same as before.
        let timeout = Duration::from_millis(left(by).as_micros().div_ceil(1000) as u64);
        if timeout.is_zero() {
            return Err(timed_out("there is no time for a reply"));
        }
        if self.timeout != timeout {
            connection.set_read_timeout(Some(timeout))?;
            self.timeout = timeout;
        }
        command.query(connection)
    }

    /// Keeps it for the next request.
    pub fn keep(mut self) {
        let connection = self.connection.take();
        let mut state = locked(&self.pool.state);
        let is_closed = state.is_closed;
        let node = state.node(&self.name);
        let idle = if self.is_short { &mut node.short } else { &mut node.any };
        if !is_closed && idle.len() < MANY {
            idle.extend(connection.map(|connection| (connection, Instant::now())));
        }
    }
}

impl Pool {
    pub fn new(nodes: Nodes, connected: Arc<AtomicBool>) -> Self {
        Self { nodes, connected, state: Mutex::default(), freed: Condvar::new() }
    }

    /// Sends a command to the node of `key`. The connection must be open at `by`. `sending` is called for each attempt.
    /// If it is not `is_short`, a connection for short commands is open before, unless it only `tries`.
    pub fn call(
        self: &Arc<Self>,
        key: &[u8],
        by: Instant,
        tries: bool,
        sending: &dyn Fn() -> RedisResult<Sent>,
    ) -> Answer {
        self.send_to(key, by, [false, !tries], sending)
    }

    /// Sends a short command, which must have a reply at `by`.
    pub fn short(self: &Arc<Self>, key: &[u8], command: &Cmd, by: Instant) -> Answer {
        let is_long = left(by) >= SHORT - SHORT / 10;
        let sending = || Ok(Sent { command: command.clone(), by, is_long });
        let mut answer = self.send_to(key, by, [true, false], &sending);
        answer.pooled.take().into_iter().for_each(Pooled::keep);
        answer
    }

    /// Closes the idle connections, and later those that are given back.
    pub fn close(&self) {
        let mut state = locked(&self.state);
        state.is_closed = true;
        for node in state.nodes.values_mut() {
            (node.any, node.short) = Default::default();
        }
    }

    fn forget(&self, name: &Name) {
        let mut state = locked(&self.state);
        let node = state.node(name);
        let closed = (std::mem::take(&mut node.any), std::mem::take(&mut node.short));
        drop(state);
        drop(closed);
    }

    fn send_to(
        self: &Arc<Self>,
        key: &[u8],
        by: Instant,
        kind: [bool; 2],
        sending: &dyn Fn() -> RedisResult<Sent>,
    ) -> Answer {
        let (mut unsure, mut is_long) = (false, false);
        let mut target = match self.target(key, by) {
            Ok(target) => target,
            Err(error) => return Answer { reply: Err(error), pooled: None, unsure },
        };
        let mut redirections = REDIRECTIONS;
        loop {
            let sending = || sending().inspect(|sent| is_long = sent.is_long);
            let (reply, pooled) = self.attempt(&target, by, kind, sending, &mut unsure);
            let Err(error) = &reply else { return Answer { reply, pooled, unsure } };
            match self.nodes.redirected(key, error).filter(|_| redirections > 0) {
                Some(other) => {
                    pooled.into_iter().for_each(Pooled::keep);
                    (target, redirections) = (other, redirections - 1);
                }
                None if !again(error) => return Answer { reply, pooled, unsure },
                None => {
                    // A server that is slow, or full, has good connections, and is the right one.
                    let is_slow = pooled.is_some() && error.is_timeout() && !is_long;
                    if !is_slow && !is_full(error) {
                        self.nodes.forget(&target.name);
                        if pooled.is_some() {
                            self.forget(&target.name);
                        }
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
        mut sending: impl FnMut() -> RedisResult<Sent>,
        unsure: &mut bool,
    ) -> (RedisResult<Value>, Option<Pooled>) {
        if let (true, Err(error)) = (needs_short, self.prepare(&target.name, by)) {
            return (Err(error), None);
        }
        loop {
            let (mut pooled, since) = match self.take(&target.name, is_short, by) {
                Err(error) => return (Err(error), None),
                Ok(taken) => taken,
            };
            let is_stale = since.is_some_and(|since| since.elapsed() > STALE);
            if is_stale && pooled.query(&cmd("PING"), checked_by(by)).is_err() {
                self.forget(&target.name);
                continue;
            }
            let reply = pooled.send(target, by, &mut sending, unsure);
            // An idle connection that was closed shows nothing about the state of the server.
            if since.is_some() && reply.as_ref().is_err_and(|error| error.is_connection_dropped()) {
                self.forget(&target.name);
                continue;
            }
            return (reply, Some(pooled));
        }
    }

    /// Opens a connection for short commands, if there is none.
    fn prepare(self: &Arc<Self>, name: &Name, by: Instant) -> RedisResult<()> {
        let mut state = locked(&self.state);
        while !state.node(name).is_ready() {
            if state.node(name).opening[1] == 0 {
                let opening = self.opening(&mut state, name, true);
                drop(state);
                opening.connect(by)?.keep();
                return Ok(());
            }
            state = self.wait(state, by)?;
        }
        Ok(())
    }

    /// An idle connection with the time since when it is, or a new one.
    fn take(self: &Arc<Self>, name: &Name, is_short: bool, by: Instant) -> RedisResult<(Pooled, Option<Instant>)> {
        let mut state = locked(&self.state);
        loop {
            let node = state.node(name);
            let opening = node.opening[usize::from(is_short)];
            let is_free = !is_short || node.used + opening < MANY;
            if let Some((connection, since)) = if is_free { node.take(is_short) } else { None } {
                node.used += usize::from(is_short);
                return Ok((self.pooled(name, connection, is_short), Some(since)));
            }
            if is_free && opening < MANY {
                let opening = self.opening(&mut state, name, is_short);
                drop(state);
                return Ok((opening.connect(by)?, None));
            }
            state = self.wait(state, by)?;
        }
    }

    /// Waits until something may have changed.
    fn wait<'a>(&self, state: MutexGuard<'a, State>, by: Instant) -> RedisResult<MutexGuard<'a, State>> {
        let left = left(by);
        if left.is_zero() {
            return Err(timed_out("the server has not replied in time"));
        }
        Ok(self.freed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0)
    }

    fn opening(self: &Arc<Self>, state: &mut State, name: &Name, is_short: bool) -> Opening {
        state.node(name).opening[usize::from(is_short)] += 1;
        Opening { pool: self.clone(), name: name.clone(), is_short }
    }

    fn pooled(self: &Arc<Self>, name: &Name, connection: Connection, is_short: bool) -> Pooled {
        let (pool, name, connection) = (self.clone(), name.clone(), Some(connection));
        Pooled { pool, name, connection, timeout: Duration::ZERO, is_short }
    }

    fn open(&self, name: &Name, limit: Duration) -> RedisResult<Connection> {
        let mut connection = connect_within(&self.nodes.client(name)?, limit)?;
        if self.nodes.has_sentinels() {
            self.nodes.check_role(|| cmd("ROLE").query(&mut connection))?;
        }
        self.connected.store(true, Ordering::Relaxed);
        Ok(connection)
    }

    /// The target of a key. If it is not known, one thread queries it for all.
    fn target(self: &Arc<Self>, key: &[u8], by: Instant) -> RedisResult<Target> {
        let mut state = locked(&self.state);
        loop {
            if let Some(target) = self.nodes.target(key) {
                return Ok(target);
            }
            let nowhere = Name::from("");
            if state.node(&nowhere).opening[0] == 0 {
                let opening = self.opening(&mut state, &nowhere, false);
                drop(state);
                in_time(by, move || look_up(&opening.pool.nodes), drop)?;
                return self.nodes.found(key);
            }
            state = self.wait(state, by)?;
        }
    }
}

/// An attempt to connect, or a query of the nodes, that has not ended.
struct Opening {
    pool: Arc<Pool>,
    name: Name,
    is_short: bool,
}

impl Drop for Opening {
    fn drop(&mut self) {
        locked(&self.pool.state).node(&self.name).opening[usize::from(self.is_short)] -= 1;
        self.pool.freed.notify_all();
    }
}

impl Opening {
    /// Connects by this time. An attempt that is late continues for a while, and its connection is kept: a try over a
    /// slow network has no time to connect, and the next one needs what it began.
    fn connect(self, by: Instant) -> RedisResult<Pooled> {
        let limit = left(by).max(SHORT);
        let open = move || {
            let connection = self.pool.open(&self.name, limit)?;
            locked(&self.pool.state).node(&self.name).used += usize::from(self.is_short);
            Ok(self.pool.pooled(&self.name, connection, self.is_short))
        };
        in_time(by, open, Pooled::keep)
    }
}

impl Pooled {
    fn send(
        &mut self,
        target: &Target,
        by: Instant,
        sending: &mut impl FnMut() -> RedisResult<Sent>,
        unsure: &mut bool,
    ) -> RedisResult<Value> {
        if target.asking {
            self.query(&cmd("ASKING"), by)?;
        }
        let sent = sending()?;
        let reply = self.query(&sent.command, sent.by);
        *unsure |= reply.as_ref().is_err_and(|error| matches!(error.kind(), ErrorKind::Io | ErrorKind::Parse));
        reply
    }
}

/// Queries the cluster or the Sentinels, one server after the other until one replies.
fn look_up(nodes: &Nodes) -> RedisResult<()> {
    let mut last = Err(timed_out("no server is named"));
    for client in nodes.candidates() {
        last = query(&client, &nodes.query()).and_then(|reply| nodes.learn(&client, &reply));
        if last.is_ok() {
            break;
        }
    }
    last
}

fn query(client: &Client, command: &Cmd) -> RedisResult<Value> {
    command.query(&mut connect_within(client, SHORT / 2)?)
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
