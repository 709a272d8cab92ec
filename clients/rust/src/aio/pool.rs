//! The crate's own connections: to each node one for all short commands, and one for each command that may wait, which
//! is kept for the next one.
//!
//! redis-rs's connections can be shared, but a command that blocks would block all others. redis-rs's time-out for
//! replies, which leaves the command waiting on the server, is turned off here.

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{cmd, AsyncConnectionConfig, Client, Cmd, ErrorKind, RedisResult, Value};
use tokio::sync::oneshot;
use tokio::time::{timeout, timeout_at};

use crate::nodes::{Name, Nodes, Target, REDIRECTIONS};
use crate::util::{again, checked_by, is_full, left, locked, timed_out, SHORT, STALE};

/// How many idle connections to a node are kept.
const MANY: usize = 16;

pub(crate) struct Pool {
    pub nodes: Nodes,
    connected: Arc<AtomicBool>,
    is_closed: AtomicBool,
    state: Mutex<HashMap<Name, Arc<Node>>>,
    /// Locked while the nodes are queried.
    looking_up: tokio::sync::Mutex<()>,
}

/// The connections to a node.
#[derive(Default)]
struct Node {
    /// Idle connections for waits, with the time since when they are.
    idle: Mutex<Vec<(MultiplexedConnection, Instant)>>,
    /// The connection for short commands, with the time of its last use, and its number.
    short: Mutex<Option<(MultiplexedConnection, Instant, u64)>>,
    /// Locked while `short` is being opened or checked.
    opening: tokio::sync::Mutex<u64>,
}

/// A command, and by when its reply must have been received. Without a reply by then the server is considered
/// unresponsive, if `is_long`.
pub(crate) struct Sent {
    pub command: Cmd,
    pub by: Instant,
    pub is_long: bool,
}

/// What returns the command; it is called for each attempt to send it.
pub(crate) type Sending<'a> = &'a (dyn Fn() -> RedisResult<Sent> + Send + Sync);

/// The result of a command.
pub(crate) struct Answer {
    pub reply: RedisResult<Value>,
    /// The connection of the reply, if it can be used again.
    pub pooled: Option<Pooled>,
    /// Whether the command was sent, now or before, without a reply.
    pub unsure: bool,
}

/// A connection, and its node. It is closed when this is dropped, unless it is the one for short commands.
pub(crate) struct Pooled {
    pool: Arc<Pool>,
    node: Arc<Node>,
    connection: MultiplexedConnection,
    /// The number of the connection for short commands.
    number: Option<u64>,
}

impl Pooled {
    /// Sends a command, and waits for its reply until `by`. After a connection error it cannot be used any more.
    pub async fn query(&mut self, command: &Cmd, by: Instant) -> RedisResult<Value> {
        let reply = timeout_at(by.into(), command.query_async(&mut self.connection)).await;
        reply.unwrap_or_else(|_| Err(timed_out("the server has not replied in time")))
    }

    /// Keeps it for the next request.
    pub fn keep(self) {
        let mut idle = locked(&self.node.idle);
        if self.number.is_none() && idle.len() < MANY && !self.pool.is_closed.load(Ordering::SeqCst) {
            idle.push((self.connection, Instant::now()));
        }
    }

    async fn send(
        &mut self,
        target: &Target,
        by: Instant,
        sending: Sending<'_>,
        unsure: &mut bool,
        is_long: &mut bool,
    ) -> RedisResult<Value> {
        if target.asking {
            self.query(&cmd("ASKING"), by).await?;
        }
        let sent = sending()?;
        *is_long = sent.is_long;
        let reply = self.query(&sent.command, sent.by).await;
        *unsure |= reply.as_ref().is_err_and(|error| matches!(error.kind(), ErrorKind::Io | ErrorKind::Parse));
        reply
    }
}

impl Pool {
    pub fn new(nodes: Nodes, connected: Arc<AtomicBool>) -> Self {
        let (is_closed, state, looking_up) = Default::default();
        Self { nodes, connected, is_closed, state, looking_up }
    }

    /// Sends a command to the node of `key`. The connection must be open at `by`. A connection for short commands is
    /// open before, unless it only `tries`.
    pub async fn call(self: &Arc<Self>, key: &[u8], by: Instant, tries: bool, sending: Sending<'_>) -> Answer {
        self.send_to(key, by, [false, !tries], sending).await
    }

    /// Sends a short command, which must have a reply at `by`.
    pub async fn short(self: &Arc<Self>, key: &[u8], command: &Cmd, by: Instant) -> Answer {
        let is_long = left(by) >= SHORT - SHORT / 10;
        self.send_to(key, by, [true, true], &|| Ok(Sent { command: command.clone(), by, is_long })).await
    }

    /// Closes the idle connections, and later those that are given back.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        locked(&self.state).clear();
    }

    fn node(&self, name: &Name) -> Arc<Node> {
        locked(&self.state).entry(name.clone()).or_default().clone()
    }

    async fn send_to(self: &Arc<Self>, key: &[u8], by: Instant, kind: [bool; 2], sending: Sending<'_>) -> Answer {
        let (mut unsure, mut is_long) = (false, false);
        let mut target = match self.target(key, by).await {
            Ok(target) => target,
            Err(error) => return Answer { reply: Err(error), pooled: None, unsure },
        };
        let mut redirections = REDIRECTIONS;
        loop {
            let (reply, pooled) = self.attempt(&target, by, kind, sending, &mut unsure, &mut is_long).await;
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
                        pooled.into_iter().for_each(|pooled| pooled.node.forget(None));
                    }
                    return Answer { reply, pooled: None, unsure };
                }
            }
        }
    }

    async fn attempt(
        self: &Arc<Self>,
        target: &Target,
        by: Instant,
        [is_short, needs_short]: [bool; 2],
        sending: Sending<'_>,
        unsure: &mut bool,
        is_long: &mut bool,
    ) -> (RedisResult<Value>, Option<Pooled>) {
        let node = self.node(&target.name);
        loop {
            let mut short = None;
            if needs_short && (is_short || locked(&node.short).is_none()) {
                short = match self.for_short(&node, &target.name, by).await {
                    Err(error) => return (Err(error), None),
                    Ok(pooled) => Some(pooled),
                };
            }
            let idle = if is_short { None } else { locked(&node.idle).pop() };
            let is_kept = idle.is_some() || is_short;
            let mut pooled = match (short.filter(|_| is_short), idle) {
                (Some(pooled), _) => pooled,
                (None, Some((connection, since))) => {
                    let mut pooled = self.pooled(&node, connection, None);
                    if since.elapsed() > STALE && pooled.query(&cmd("PING"), checked_by(by)).await.is_err() {
                        node.forget(None);
                        continue;
                    }
                    pooled
                }
                (None, None) => match self.connect(&node, &target.name, by).await {
                    Err(error) => return (Err(error), None),
                    Ok(connection) => self.pooled(&node, connection, None),
                },
            };
            let reply = pooled.send(target, by, sending, unsure, is_long).await;
            // A kept connection that was closed shows nothing about the state of the server.
            if is_kept && reply.as_ref().is_err_and(|error| error.is_connection_dropped()) && !left(by).is_zero() {
                node.forget(pooled.number);
                continue;
            }
            return (reply, Some(pooled));
        }
    }

    fn pooled(self: &Arc<Self>, node: &Arc<Node>, connection: MultiplexedConnection, number: Option<u64>) -> Pooled {
        Pooled { pool: self.clone(), node: node.clone(), connection, number }
    }

    /// The connection for short commands, which one caller opens for all.
    async fn for_short(self: &Arc<Self>, node: &Arc<Node>, name: &Name, by: Instant) -> RedisResult<Pooled> {
        let fresh = || {
            let mut short = locked(&node.short);
            let (connection, since, number) = short.as_mut().filter(|short| short.1.elapsed() <= STALE)?;
            *since = Instant::now();
            Some(self.pooled(node, connection.clone(), Some(*number)))
        };
        if let Some(pooled) = fresh() {
            return Ok(pooled);
        }
        let late = |_| timed_out("the server has not replied in time");
        let mut last = timeout_at(by.into(), node.opening.lock()).await.map_err(late)?;
        if let Some(pooled) = fresh() {
            return Ok(pooled);
        }
        let stale = locked(&node.short).clone();
        if let Some((connection, _, number)) = stale {
            let mut pooled = self.pooled(node, connection, Some(number));
            if pooled.query(&cmd("PING"), checked_by(by)).await.is_ok() {
                locked(&node.short).iter_mut().for_each(|short| short.1 = Instant::now());
                return Ok(pooled);
            }
            node.forget(None);
        }
        let idle = locked(&node.idle).pop().filter(|(_, since)| since.elapsed() < STALE);
        let connection = match idle {
            Some((connection, _)) => connection,
            None => self.connect(node, name, by).await?,
        };
        *last += 1;
        let pooled = self.pooled(node, connection.clone(), Some(*last));
        if !self.is_closed.load(Ordering::SeqCst) {
            *locked(&node.short) = Some((connection, Instant::now(), *last));
        }
        Ok(pooled)
    }

    /// Connects by this time. An attempt that is late continues for a while, and its connection is kept: a try over a
    /// slow network has no time to connect, and the next one needs what it began.
    async fn connect(
        self: &Arc<Self>,
        node: &Arc<Node>,
        name: &Name,
        by: Instant,
    ) -> RedisResult<MultiplexedConnection> {
        let (pool, name, limit) = (self.clone(), name.clone(), left(by).max(SHORT));
        let (late, node) = (self.clone(), node.clone());
        let opening = async move {
            let opened = timeout(limit, pool.open(&name, limit)).await;
            opened.unwrap_or_else(|_| Err(timed_out("the server has not replied in time")))
        };
        in_time(by, opening, move |connection| late.pooled(&node, connection, None).keep()).await
    }

    async fn open(&self, name: &Name, limit: Duration) -> RedisResult<MultiplexedConnection> {
        let mut connection = connected(&self.nodes.client(name)?, limit).await?;
        if self.nodes.has_sentinels() {
            let role = cmd("ROLE").query_async(&mut connection).await;
            self.nodes.check_role(|| role)?;
        }
        self.connected.store(true, Ordering::Relaxed);
        Ok(connection)
    }

    /// The target of a key. If it is not known, one caller queries it for all.
    async fn target(self: &Arc<Self>, key: &[u8], by: Instant) -> RedisResult<Target> {
        if let Some(target) = self.nodes.target(key) {
            return Ok(target);
        }
        let found = timeout_at(by.into(), async {
            let _looking_up = self.looking_up.lock().await;
            if self.nodes.target(key).is_none() {
                look_up(&self.nodes).await?;
            }
            self.nodes.found(key)
        });
        found.await.unwrap_or_else(|_| Err(timed_out("no node has replied in time")))
    }
}

impl Node {
    /// Closes the idle connections. The one for short commands is closed only if it still has this number.
    fn forget(&self, number: Option<u64>) {
        let mut short = locked(&self.short);
        if number.is_none() || short.as_ref().is_some_and(|short| Some(short.2) == number) {
            *short = None;
        }
        locked(&self.idle).clear();
    }
}

/// The result of a future, if it is complete in time; otherwise it is given to `late` when there is one.
async fn in_time<T: Send + 'static>(
    by: Instant,
    work: impl Future<Output = RedisResult<T>> + Send + 'static,
    late: impl FnOnce(T) + Send + 'static,
) -> RedisResult<T> {
    let (sender, receiver) = oneshot::channel();
    tokio::spawn(async move {
        if let Err(Ok(result)) = sender.send(work.await) {
            late(result);
        }
    });
    match timeout_at(by.into(), receiver).await {
        Ok(Ok(result)) => result,
        _ => Err(timed_out("the server has not replied in time")),
    }
}

async fn connected(client: &Client, limit: Duration) -> RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new().set_connection_timeout(Some(limit)).set_response_timeout(None);
    client.get_multiplexed_async_connection_with_config(&config).await
}

/// Queries the cluster or the Sentinels, one server after the other until one replies.
async fn look_up(nodes: &Nodes) -> RedisResult<()> {
    let mut last = Err(timed_out("no server is named"));
    for client in nodes.candidates() {
        last = query(&client, &nodes.query()).await.and_then(|reply| nodes.learn(&client, &reply));
        if last.is_ok() {
            break;
        }
    }
    last
}

async fn query(client: &Client, command: &Cmd) -> RedisResult<Value> {
    let queried = timeout(SHORT, async { command.query_async(&mut connected(client, SHORT).await?).await });
    queried.await.unwrap_or_else(|_| Err(timed_out("the server has not replied in time")))
}
