//! The crate's own connections. Each is used by one request at a time, and kept for the next one.
//!
//! redis-rs's connections can be shared, but a command that blocks would block all others. redis-rs's time-out for
//! replies, which leaves the command waiting on the server, is turned off here.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{cmd, AsyncConnectionConfig, Client, Cmd, ErrorKind, RedisResult, Value};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::idle::Idle;
use crate::nodes::{Name, Nodes, Slots, Target, REDIRECTIONS};
use crate::util::{again, is_full, locked, timed_out, CONNECTING, SHORT};

pub(crate) struct Pool {
    pub nodes: Nodes,
    connected: Arc<AtomicBool>,
    idle: Mutex<Idle<MultiplexedConnection>>,
}

/// The result of a command.
pub(crate) struct Answer {
    pub reply: RedisResult<Value>,
    /// The connection of the reply, if it can be used again.
    pub line: Option<Line>,
    /// Whether the command was sent, now or before, without a reply.
    pub unsure: bool,
}

/// A command, and whether it was sent.
pub(crate) struct Sending<'a> {
    /// The command, and how long to wait for its reply.
    pub command: &'a (dyn Fn() -> (Cmd, Duration) + Send + Sync),
    /// How long it may take to connect.
    pub limit: Duration,
    /// Whether it waits for a lock: then a connection for short commands is open before.
    pub waits: bool,
    /// Set to true when it is sent.
    pub is_sent: &'a AtomicBool,
}

/// A connection, and its node.
pub(crate) struct Line {
    name: Name,
    connection: MultiplexedConnection,
}

impl Line {
    /// Sends a command, and waits for its reply for `listen`. After a connection error it cannot be used any more.
    pub async fn ask(&mut self, command: &Cmd, listen: Duration) -> RedisResult<Value> {
        let reply = timeout(listen, command.query_async(&mut self.connection)).await;
        reply.unwrap_or_else(|_| Err(timed_out("the server has not replied in time")))
    }
}

impl Pool {
    pub fn new(nodes: Nodes, connected: Arc<AtomicBool>) -> Self {
        Self { nodes, connected, idle: Mutex::default() }
    }

    /// Sends a command to the node of `key`.
    pub async fn call(self: &Arc<Self>, key: &[u8], sending: Sending<'_>) -> Answer {
        let mut unsure = false;
        let mut target = match self.target(key, sending.limit).await {
            Ok(target) => target,
            Err(error) => return Answer { reply: Err(error), line: None, unsure },
        };
        let mut left = REDIRECTIONS;
        loop {
            let (reply, line) = self.ask(&target, &sending, &mut unsure).await;
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
    pub async fn short(self: &Arc<Self>, key: &[u8], command: &Cmd, listen: Duration) -> Answer {
        let is_sent = AtomicBool::default();
        let command = &|| (command.clone(), listen);
        let sending = Sending { command, limit: listen.min(SHORT), waits: false, is_sent: &is_sent };
        let mut answer = self.call(key, sending).await;
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

    async fn ask(
        self: &Arc<Self>,
        target: &Target,
        sending: &Sending<'_>,
        unsure: &mut bool,
    ) -> (RedisResult<Value>, Option<Line>) {
        if sending.waits && !locked(&self.idle).is_ready(&target.name) {
            match self.connect(&target.name, sending.limit).await {
                Err(error) => return (Err(error), None),
                Ok(line) => locked(&self.idle).keep_short(line.name, line.connection),
            }
        }
        let kept = locked(&self.idle).take(&target.name, sending.waits);
        if let Some(connection) = kept {
            let mut line = Line { name: target.name.clone(), connection };
            let reply = send(&mut line, target, sending, unsure).await;
            // An idle connection that was closed shows nothing about the state of the server.
            if !reply.as_ref().is_err_and(|error| error.is_connection_dropped()) {
                return (reply, Some(line));
            }
            locked(&self.idle).forget(&target.name);
        }
        match self.connect(&target.name, sending.limit).await {
            Err(error) => (Err(error), None),
            Ok(mut line) => (send(&mut line, target, sending, unsure).await, Some(line)),
        }
    }

    /// Connects within `limit`. Afterwards the attempt goes on, and its connection is kept: a try over a slow network has
    /// no time to connect, and the next one needs what it began.
    async fn connect(self: &Arc<Self>, name: &Name, limit: Duration) -> RedisResult<Line> {
        let (pool, name) = (self.clone(), name.clone());
        let late = self.clone();
        let opening = async move { pool.open(&name).await.map(|connection| Line { name, connection }) };
        in_time(limit, opening, move |line| late.keep(line)).await
    }

    async fn open(&self, name: &Name) -> RedisResult<MultiplexedConnection> {
        let client = match &self.nodes {
            Nodes::One(client) => client.clone(),
            Nodes::Cluster(slots) => slots.client(name)?,
            Nodes::Sentinel(sentinels) => {
                let found = timeout(CONNECTING, sentinels.client()?.async_get_client()).await;
                sentinels.found(found.unwrap_or_else(|_| Err(timed_out("no Sentinel has replied in time")))?)
            }
        };
        let connection = connected(&client, CONNECTING).await?;
        self.connected.store(true, Ordering::Relaxed);
        Ok(connection)
    }

    async fn target(self: &Arc<Self>, key: &[u8], limit: Duration) -> RedisResult<Target> {
        let nowhere = || (ErrorKind::ClusterConnectionNotFound, "no node serves the slot of this key").into();
        match (self.nodes.target(key), &self.nodes) {
            (None, Nodes::Cluster(slots)) => {
                let found = timeout(limit, look_up(slots)).await;
                found.unwrap_or_else(|_| Err(timed_out("no node has replied in time")))?;
                self.nodes.target(key).ok_or_else(nowhere)
            }
            (target, _) => target.ok_or_else(nowhere),
        }
    }
}

/// The result of a future, if it is complete in time; otherwise it is given to `late` when there is one.
async fn in_time<T: Send + 'static>(
    limit: Duration,
    asking: impl Future<Output = RedisResult<T>> + Send + 'static,
    late: impl FnOnce(T) + Send + 'static,
) -> RedisResult<T> {
    let (sender, receiver) = oneshot::channel();
    tokio::spawn(async move {
        if let Err(Ok(result)) = sender.send(asking.await) {
            late(result);
        }
    });
    match timeout(limit, receiver).await {
        Ok(Ok(result)) => result,
        _ => Err(timed_out("the server has not replied in time")),
    }
}

async fn send(line: &mut Line, target: &Target, sending: &Sending<'_>, unsure: &mut bool) -> RedisResult<Value> {
    if target.asking {
        line.ask(&cmd("ASKING"), SHORT).await?;
    }
    sending.is_sent.store(true, Ordering::Relaxed);
    let (command, listen) = (sending.command)();
    let reply = line.ask(&command, listen).await;
    *unsure |= reply.as_ref().is_err_and(|error| matches!(error.kind(), ErrorKind::Io | ErrorKind::Parse));
    reply
}

async fn connected(client: &Client, limit: Duration) -> RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new().set_connection_timeout(Some(limit)).set_response_timeout(None);
    client.get_multiplexed_async_connection_with_config(&config).await
}

/// Queries the nodes of the cluster for its slots, one after the other until one replies.
async fn look_up(slots: &Slots) -> RedisResult<()> {
    let mut last = Err((ErrorKind::InvalidClientConfig, "no node of the cluster is named").into());
    for client in slots.candidates() {
        last = slots_of(&client).await.and_then(|reply| slots.learn(&client, reply));
        if last.is_ok() {
            break;
        }
    }
    last
}

async fn slots_of(client: &Client) -> RedisResult<Value> {
    let mut connection = connected(client, SHORT).await?;
    let reply = timeout(SHORT, cmd("CLUSTER").arg("SLOTS").query_async(&mut connection)).await;
    reply.unwrap_or_else(|_| Err(timed_out("the server has not replied in time")))
}
