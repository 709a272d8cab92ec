//! The crate's own connections. Each is used by one request at a time, and kept for the next one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{mpsc, Arc, Mutex};
use std::thread;
use std::time::Duration;

use redis::{cmd, Client, Cmd, Connection, ErrorKind, RedisResult, Value};

use crate::idle::Idle;
use crate::nodes::{Name, Nodes, Slots, Target, REDIRECTIONS};
use crate::util::{again, is_full, locked, timed_out, CONNECTING, SHORT};

pub(crate) struct Pool {
    pub nodes: Nodes,
    connected: Arc<AtomicBool>,
    idle: Mutex<Idle<Connection>>,
}

/// The result of a command.
pub(crate) struct Answer {
    pub reply: RedisResult<Value>,
    /// The connection of the reply, if it can be used again.
    pub line: Option<Line>,
    /// Whether the command was sent, now or before, without a reply.
    pub unsure: bool,
}

/// A connection, and its node.
pub(crate) struct Line {
    name: Name,
    connection: Connection,
}

impl Line {
    /// Sends a command, and waits for its reply for `listen`. After a connection error it cannot be used any more.
    pub fn ask(&mut self, command: &Cmd, listen: Duration) -> RedisResult<Value> {
        self.connection.set_read_timeout(Some(listen))?;
        self.connection.set_write_timeout(Some(SHORT))?;
        command.query(&mut self.connection)
    }
}

impl Pool {
    pub fn new(nodes: Nodes, connected: Arc<AtomicBool>) -> Self {
        Self { nodes, connected, idle: Mutex::default() }
    }

    /// Sends a command to the node of `key`, to which it may take `limit` to connect. `sending` returns the command, and
    /// how long to wait for its reply. If it `waits`, a connection for short commands is open before.
    pub fn call(
        self: &Arc<Self>,
        key: &[u8],
        limit: Duration,
        waits: bool,
        sending: &dyn Fn() -> (Cmd, Duration),
    ) -> Answer {
        let mut unsure = false;
        let mut target = match self.target(key, limit) {
            Ok(target) => target,
            Err(error) => return Answer { reply: Err(error), line: None, unsure },
        };
        let mut left = REDIRECTIONS;
        loop {
            let (reply, line) = self.ask(&target, limit, waits, sending, &mut unsure);
            let Err(error) = &reply else { return Answer { reply, line, unsure } };
            match self.nodes.redirected(key, error).filter(|_| left > 0) {
                Some(other) => {
                    line.into_iter().for_each(|line| self.keep(line));
                    (target, left) = (other, left - 1);
                }
                None if is_full(error) => return Answer { reply, line: None, unsure },
                None if again(error) => {
                    match line {
                        Some(_) => self.forget(&target.name),
                        // It could not connect, as if the server is full; idle connections are good.
                        None => self.nodes.forget(),
                    }
                    return Answer { reply, line: None, unsure };
                }
                None => return Answer { reply, line, unsure },
            }
        }
    }

    /// The same for a short command, whose connection is kept.
    pub fn short(self: &Arc<Self>, key: &[u8], command: &Cmd, listen: Duration) -> Answer {
        let mut answer = self.call(key, listen.min(SHORT), false, &|| (command.clone(), listen));
        answer.line.take().into_iter().for_each(|line| locked(&self.idle).keep_short(line.name, line.connection));
        answer
    }

    /// Keeps a connection for the next request.
    pub fn keep(&self, line: Line) {
        locked(&self.idle).keep(line.name, line.connection);
    }

    /// Closes the idle connections, and later those that are given back.
    pub fn close(&self) {
        locked(&self.idle).close();
    }

    fn forget(&self, name: &Name) {
        self.nodes.forget();
        locked(&self.idle).forget(name);
    }

    fn ask(
        self: &Arc<Self>,
        target: &Target,
        limit: Duration,
        waits: bool,
        sending: &dyn Fn() -> (Cmd, Duration),
        unsure: &mut bool,
    ) -> (RedisResult<Value>, Option<Line>) {
        if waits && !locked(&self.idle).is_ready(&target.name) {
            match self.connect(&target.name, limit) {
                Err(error) => return (Err(error), None),
                Ok(line) => locked(&self.idle).keep_short(line.name, line.connection),
            }
        }
        let kept = locked(&self.idle).take(&target.name, waits);
        if let Some(connection) = kept {
            let mut line = Line { name: target.name.clone(), connection };
            let reply = self.send(&mut line, target, sending, unsure);
            // An idle connection that was closed shows nothing about the state of the server.
            if !reply.as_ref().is_err_and(|error| error.is_connection_dropped()) {
                return (reply, Some(line));
            }
            locked(&self.idle).forget(&target.name);
        }
        match self.connect(&target.name, limit) {
            Err(error) => (Err(error), None),
            Ok(mut line) => (self.send(&mut line, target, sending, unsure), Some(line)),
        }
    }

    fn send(
        &self,
        line: &mut Line,
        target: &Target,
        sending: &dyn Fn() -> (Cmd, Duration),
        unsure: &mut bool,
    ) -> RedisResult<Value> {
        if target.asking {
            line.ask(&cmd("ASKING"), SHORT)?;
        }
        let (command, listen) = sending();
        let reply = line.ask(&command, listen);
        *unsure |= reply.as_ref().is_err_and(|error| matches!(error.kind(), ErrorKind::Io | ErrorKind::Parse));
        reply
    }

    /// Connects within `limit`. Afterwards the attempt goes on, and its connection is kept: a try over a slow network has
    /// no time to connect, and the next one needs what it began.
    fn connect(self: &Arc<Self>, name: &Name, limit: Duration) -> RedisResult<Line> {
        let (pool, name) = (self.clone(), name.clone());
        let opening = move || pool.open(&name).map(|connection| Line { name: name.clone(), connection });
        let pool = self.clone();
        in_time(limit, opening, move |line| pool.keep(line))
    }

    fn open(&self, name: &Name) -> RedisResult<Connection> {
        let client = match &self.nodes {
            Nodes::One(client) => client.clone(),
            Nodes::Cluster(slots) => slots.client(name)?,
            Nodes::Sentinel(sentinels) => sentinels.found(sentinels.client()?.get_client()?),
        };
        let connection = client.get_connection_with_timeout(CONNECTING)?;
        self.connected.store(true, Ordering::Relaxed);
        Ok(connection)
    }

    fn target(self: &Arc<Self>, key: &[u8], limit: Duration) -> RedisResult<Target> {
        let nowhere = || (ErrorKind::ClusterConnectionNotFound, "no node serves the slot of this key").into();
        match (self.nodes.target(key), &self.nodes) {
            (None, Nodes::Cluster(_)) => {
                let pool = self.clone();
                let look_up = move || match &pool.nodes {
                    Nodes::Cluster(slots) => look_up(slots),
                    _ => Ok(()),
                };
                in_time(limit, look_up, |()| ())?;
                self.nodes.target(key).ok_or_else(nowhere)
            }
            (target, _) => target.ok_or_else(nowhere),
        }
    }
}

/// Queries the nodes of the cluster for its slots, one after the other until one replies.
fn look_up(slots: &Slots) -> RedisResult<()> {
    let mut last = Err((ErrorKind::InvalidClientConfig, "no node of the cluster is named").into());
    for client in slots.candidates() {
        last = slots_of(&client).and_then(|reply| slots.learn(&client, reply));
        if last.is_ok() {
            break;
        }
    }
    last
}

fn slots_of(client: &Client) -> RedisResult<Value> {
    let mut connection = client.get_connection_with_timeout(SHORT)?;
    connection.set_read_timeout(Some(SHORT))?;
    cmd("CLUSTER").arg("SLOTS").query(&mut connection)
}

/// The result of `ask`, if it returns in time; otherwise it is given to `late` when there is one.
fn in_time<T: Send + 'static>(
    limit: Duration,
    ask: impl FnOnce() -> RedisResult<T> + Send + 'static,
    late: impl FnOnce(T) + Send + 'static,
) -> RedisResult<T> {
    let (sender, receiver) = mpsc::sync_channel(0);
    thread::spawn(move || {
        if let Err(mpsc::SendError(Ok(result))) = sender.send(ask()) {
            late(result);
        }
    });
    receiver.recv_timeout(limit).unwrap_or_else(|_| Err(timed_out("the server has not replied in time")))
}
