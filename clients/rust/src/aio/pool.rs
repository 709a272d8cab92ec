//! The crate's own connections. Each is used by one request at a time, and kept for the next one.
//!
//! redis-rs's connections can be shared, but a command that blocks would block all others. redis-rs's time-out for
//! replies, which leaves the command waiting on the server, is turned off here.

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{cmd, AsyncConnectionConfig, Client, Cmd, RedisResult, Value};
use tokio::sync::{oneshot, OwnedSemaphorePermit, Semaphore};
use tokio::time::{timeout, timeout_at};

use crate::idle::{Idle, MANY};
use crate::nodes::{Name, Nodes, Target, REDIRECTIONS};
use crate::util::{again, checked_by, is_lost, is_slow, left, locked, timed_out, Sent, SHORT};

pub(crate) struct Pool {
    pub nodes: Nodes,
    connected: Arc<AtomicBool>,
    idle: Mutex<Idle<MultiplexedConnection>>,
    /// For each node: how many more connections can be used for short commands, or be opened.
    places: Mutex<HashMap<(Name, bool), Arc<Semaphore>>>,
}

/// What returns a command; it is called for each attempt to send it.
pub(crate) type Sending<'a> = &'a (dyn Fn() -> RedisResult<Sent> + Send + Sync);

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
    connection: MultiplexedConnection,
    /// Of a connection for short commands.
    place: Option<OwnedSemaphorePermit>,
}

impl Pooled {
    /// Sends a command, and waits for its reply until `by`. After a connection error it cannot be used any more.
    pub async fn query(&mut self, command: &Cmd, by: Instant) -> RedisResult<Value> {
        let reply = timeout_at(by.into(), command.query_async(&mut self.connection)).await;
        reply.unwrap_or_else(|_| Err(timed_out("the server has not replied in time")))
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
    pub async fn short(self: &Arc<Self>, key: &[u8], command: &Cmd, by: Instant) -> Answer {
        let is_long = left(by) >= SHORT - SHORT / 10;
        let sending = || Ok(Sent { command: command.clone(), by, is_long });
        let mut answer = self.send(key, by, [true, false], &sending).await;
        answer.pooled.take().into_iter().for_each(Pooled::keep);
        answer
    }

    /// Sends a command to the node of `key`. The connection must be open at `by`. `sending` is called for each attempt.
    /// A connection for short commands is open before, unless it only `tries`.
    pub async fn call(self: &Arc<Self>, key: &[u8], by: Instant, tries: bool, sending: Sending<'_>) -> Answer {
        self.send(key, by, [false, !tries], sending).await
    }

    /// Closes the idle connections, and later those that are given back.
    pub fn close(&self) {
        locked(&self.idle).close();
    }

    async fn send(self: &Arc<Self>, key: &[u8], by: Instant, kind: [bool; 2], sending: Sending<'_>) -> Answer {
        let mut unsure = false;
        let mut target = match self.target(key, by).await {
            Ok(target) => target,
            Err(error) => return Answer { reply: Err(error), pooled: None, unsure },
        };
        let mut redirections = REDIRECTIONS;
        loop {
            let (reply, pooled, is_long) = self.attempt(&target, by, kind, sending, &mut unsure).await;
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

    async fn attempt(
        self: &Arc<Self>,
        target: &Target,
        by: Instant,
        [is_short, needs_short]: [bool; 2],
        sending: Sending<'_>,
        unsure: &mut bool,
    ) -> (RedisResult<Value>, Option<Pooled>, bool) {
        loop {
            if needs_short && !locked(&self.idle).is_ready(&target.name) {
                match self.take(&target.name, true, by).await {
                    Err(error) => return (Err(error), None, false),
                    Ok((pooled, _)) => pooled.keep(),
                }
            }
            let (mut pooled, is_stale) = match self.take(&target.name, is_short, by).await {
                Err(error) => return (Err(error), None, false),
                Ok(taken) => taken,
            };
            if is_stale == Some(true) && pooled.query(&cmd("PING"), checked_by(by)).await.is_err() {
                locked(&self.idle).forget(&target.name);
                continue;
            }
            let asking = if target.asking { pooled.query(&cmd("ASKING"), by).await.map(drop) } else { Ok(()) };
            let sent = match asking.and_then(|()| sending()) {
                Err(error) => return (Err(error), Some(pooled), false),
                Ok(sent) => sent,
            };
            let reply = pooled.query(&sent.command, sent.by).await;
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
    async fn take(self: &Arc<Self>, name: &Name, is_short: bool, by: Instant) -> RedisResult<(Pooled, Option<bool>)> {
        let place = if is_short { Some(self.place(name, true, by).await?) } else { None };
        let idle = locked(&self.idle).take(name, is_short);
        match idle {
            Some((connection, is_stale)) => Ok((self.pooled(name, connection, place), Some(is_stale))),
            None => self.connect(name, place, by).await.map(|pooled| (pooled, None)),
        }
    }

    fn pooled(
        self: &Arc<Self>,
        name: &Name,
        connection: MultiplexedConnection,
        place: Option<OwnedSemaphorePermit>,
    ) -> Pooled {
        Pooled { pool: self.clone(), name: name.clone(), connection, place }
    }

    /// A place for a short command, or to connect.
    async fn place(&self, name: &Name, is_short: bool, by: Instant) -> RedisResult<OwnedSemaphorePermit> {
        let places = locked(&self.places)
            .entry((name.clone(), is_short))
            .or_insert_with(|| Arc::new(Semaphore::new(MANY)))
            .clone();
        let place = timeout_at(by.into(), places.acquire_owned()).await;
        place.ok().and_then(Result::ok).ok_or_else(|| timed_out("too many connections are in use"))
    }

    /// Connects by this time. An attempt that is late continues for a while, and its connection is kept: a try over a
    /// slow network has no time to connect, and the next one needs what it began.
    async fn connect(
        self: &Arc<Self>,
        name: &Name,
        place: Option<OwnedSemaphorePermit>,
        by: Instant,
    ) -> RedisResult<Pooled> {
        let (opening, limit) = (self.place(name, false, by).await?, left(by).max(SHORT));
        let (pool, name) = (self.clone(), name.clone());
        let open = async move {
            let _opening = opening;
            let mut connection = connected(&pool.nodes.client(&name)?, limit).await?;
            if pool.nodes.has_sentinels() {
                let role = timeout(SHORT, cmd("ROLE").query_async(&mut connection)).await;
                pool.nodes
                    .check_role(|| role.unwrap_or_else(|_| Err(timed_out("the server has not replied in time"))))?;
            }
            pool.connected.store(true, Ordering::Relaxed);
            Ok(pool.pooled(&name, connection, place))
        };
        in_time(by, open, Pooled::keep).await
    }

    async fn target(self: &Arc<Self>, key: &[u8], by: Instant) -> RedisResult<Target> {
        if let Some(target) = self.nodes.target(key) {
            return Ok(target);
        }
        let (looking_up, pool) = (self.place(&Name::from(""), false, by).await?, self.clone());
        let look_up = async move {
            let _looking_up = looking_up;
            look_up(&pool.nodes).await
        };
        in_time(by, look_up, drop).await?;
        self.nodes.found(key)
    }
}

/// Queries the cluster or the Sentinels, one server after the other until one replies.
async fn look_up(nodes: &Nodes) -> RedisResult<()> {
    let mut last = Err(timed_out("no server is named"));
    for client in nodes.candidates() {
        let query = nodes.query();
        let replied = async { query.query_async(&mut connected(&client, SHORT).await?).await };
        let reply = timeout(SHORT, replied).await.unwrap_or_else(|_| Err(timed_out("no server has replied in time")));
        last = reply.and_then(|reply| nodes.learn(&client, &reply));
        if last.is_ok() {
            break;
        }
    }
    last
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
