//! The crate's own connections. Each is used by one request at a time, and kept for the next one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{mpsc, Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use redis::{cmd, Cmd, Connection, RedisResult, Value};

use crate::idle::{Idle, MANY, OPENING};
use crate::nodes::{connect_within, Name, Nodes, Target, REDIRECTIONS};
use crate::util::{again, busy, checked_by, is_lost, is_slow, left, locked, timed_out, Sent, SHORT};

pub(crate) struct Pool {
    pub nodes: Nodes,
    connected: Arc<AtomicBool>,
    idle: Mutex<Idle<Connection>>,
    /// For each node: how many more connections can be used for short commands, or be opened.
    places: Mutex<HashMap<(Name, bool), Arc<Places>>>,
}

/// What returns a command; it is called for each attempt to send it.
pub(crate) type Sending<'a> = &'a dyn Fn() -> RedisResult<Sent>;

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
            return Err(timed_out());
        }
        if self.timeout != timeout {
            self.connection.set_read_timeout(Some(timeout))?;
            self.timeout = timeout;
        }
        command.query(&mut self.connection)
    }

    /// Sends a command behind one that has no reply yet, and closes the connection.
    fn send_behind(mut self, command: &Cmd) {
        let _ = self.connection.send_packed_command(&command.get_packed_command());
    }
}

crate::both::pool!([] []);

impl Pool {
    pub fn new(nodes: Nodes, connected: Arc<AtomicBool>) -> Self {
        Self { nodes, connected, idle: Mutex::default(), places: Mutex::default() }
    }

    fn pooled(self: &Arc<Self>, name: &Name, connection: Connection, place: Option<Place>) -> Pooled {
        Pooled { pool: self.clone(), name: name.clone(), connection, timeout: Duration::ZERO, place }
    }

    /// A place for a short command, or for a thread that connects.
    pub(super) fn place(&self, name: &Name, is_short: bool, by: Instant) -> RedisResult<Place> {
        let new =
            || Arc::new(Places { free: Mutex::new(if is_short { MANY } else { OPENING }), freed: Condvar::new() });
        let places = locked(&self.places).entry((name.clone(), is_short)).or_insert_with(new).clone();
        places.take(by).ok_or_else(|| busy(is_short))
    }

    /// Connects by this time. An attempt that is late continues for a while, and its connection is kept: a try over a
    /// slow network has no time to connect, and the next one needs what it began.
    fn connect(self: &Arc<Self>, name: &Name, place: Option<Place>, by: Instant) -> RedisResult<Pooled> {
        let opening = if place.is_none() { Some(self.place(name, false, by)?) } else { None };
        let (pool, name, limit) = (self.clone(), name.clone(), left(by).max(SHORT));
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
        let (looking_up, pool) = (self.place(&Name::from(""), true, by)?, self.clone());
        let look_up = move || {
            let _looking_up = looking_up;
            look_up(&pool.nodes)
        };
        // Another one may have found it meanwhile.
        if self.nodes.target(key).is_none() {
            in_time(by, look_up, drop)?;
        }
        self.nodes.found(key)
    }
}

/// Queries the cluster or the Sentinels, one server after the other until one replies.
fn look_up(nodes: &Nodes) -> RedisResult<()> {
    let mut last = Err(timed_out());
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
    receiver.recv_timeout(left(by)).unwrap_or_else(|_| Err(timed_out()))
}

/// A semaphore.
struct Places {
    free: Mutex<usize>,
    freed: Condvar,
}

/// What is taken of it, until it is dropped.
pub(super) struct Place(Arc<Places>);

impl Places {
    fn take(self: Arc<Self>, by: Instant) -> Option<Place> {
        let waited = self.freed.wait_timeout_while(locked(&self.free), left(by), |free| *free == 0);
        let mut free = waited.unwrap_or_else(PoisonError::into_inner).0;
        *free = free.checked_sub(1)?;
        drop(free);
        Some(Place(self))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        *locked(&self.0.free) += 1;
        self.0.freed.notify_one();
    }
}
