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

use crate::idle::{Idle, MANY, OPENING};
use crate::nodes::{Name, Nodes, Target, REDIRECTIONS};
use crate::util::{again, busy, checked_by, is_lost, is_slow, left, locked, timed_out, Sent, SHORT};

pub(crate) struct Pool {
    pub nodes: Nodes,
    connected: Arc<AtomicBool>,
    idle: Mutex<Idle<MultiplexedConnection>>,
    /// For each node: how many more connections can be used for short commands, or be opened.
    places: Mutex<HashMap<(Name, bool), Arc<Semaphore>>>,
}

/// What returns a command; it is called for each attempt to send it.
pub(crate) type Sending<'a> = &'a (dyn Fn() -> RedisResult<Sent> + Send + Sync);

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
        reply.unwrap_or_else(|_| Err(timed_out()))
    }

    /// Sends a command behind one that has no reply yet, and then closes the connection.
    fn send_behind(mut self, command: &Cmd) {
        let command = command.clone();
        tokio::spawn(async move { self.query(&command, Instant::now() + SHORT).await });
    }
}

crate::both::pool!([async] [.await]);

impl Pool {
    pub fn new(nodes: Nodes, connected: Arc<AtomicBool>) -> Self {
        Self { nodes, connected, idle: Mutex::default(), places: Mutex::default() }
    }

    fn pooled(
        self: &Arc<Self>,
        name: &Name,
        connection: MultiplexedConnection,
        place: Option<OwnedSemaphorePermit>,
    ) -> Pooled {
        Pooled { pool: self.clone(), name: name.clone(), connection, place }
    }

    /// A place for a short command, or to connect if that may go on later.
    pub(super) async fn place(&self, name: &Name, is_short: bool, by: Instant) -> RedisResult<OwnedSemaphorePermit> {
        let places = locked(&self.places)
            .entry((name.clone(), is_short))
            .or_insert_with(|| Arc::new(Semaphore::new(if is_short { MANY } else { OPENING })))
            .clone();
        let place = timeout_at(by.into(), places.acquire_owned()).await;
        place.ok().and_then(Result::ok).ok_or_else(|| busy(is_short))
    }

    /// Connects by this time. With less than a second, an attempt that is late continues for a while, and its connection
    /// is kept: a try over a slow network has no time to connect, and the next one needs what it began.
    async fn connect(
        self: &Arc<Self>,
        name: &Name,
        place: Option<OwnedSemaphorePermit>,
        by: Instant,
    ) -> RedisResult<Pooled> {
        let ends = place.is_none() && left(by) >= SHORT;
        let opening = if place.is_none() && !ends { Some(self.place(name, false, by).await?) } else { None };
        let (pool, name, limit) = (self.clone(), name.clone(), left(by).max(SHORT));
        let open = async move {
            let _opening = opening;
            let mut connection = connected(&pool.nodes.client(&name)?, limit).await?;
            if pool.nodes.has_sentinels() {
                let role = timeout(SHORT, cmd("ROLE").query_async(&mut connection)).await;
                pool.nodes.check_role(|| role.unwrap_or_else(|_| Err(timed_out())))?;
            }
            pool.connected.store(true, Ordering::Relaxed);
            Ok(pool.pooled(&name, connection, place))
        };
        if ends {
            return timeout_at(by.into(), open).await.unwrap_or_else(|_| Err(timed_out()));
        }
        in_time(by, open, Pooled::keep).await
    }

    async fn target(self: &Arc<Self>, key: &[u8], by: Instant) -> RedisResult<Target> {
        if let Some(target) = self.nodes.target(key) {
            return Ok(target);
        }
        let (looking_up, pool) = (self.place(&Name::from(""), true, by).await?, self.clone());
        let look_up = async move {
            let _looking_up = looking_up;
            look_up(&pool.nodes).await
        };
        // Another one may have found it meanwhile.
        if self.nodes.target(key).is_none() {
            in_time(by, look_up, drop).await?;
        }
        self.nodes.found(key)
    }
}

/// Queries the cluster or the Sentinels, one server after the other until one replies.
async fn look_up(nodes: &Nodes) -> RedisResult<()> {
    let mut last = Err(timed_out());
    for client in nodes.candidates() {
        let query = nodes.query();
        let replied = async { query.query_async(&mut connected(&client, SHORT).await?).await };
        let reply = timeout(SHORT, replied).await.unwrap_or_else(|_| Err(timed_out()));
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
        _ => Err(timed_out()),
    }
}

async fn connected(client: &Client, limit: Duration) -> RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new().set_connection_timeout(Some(limit)).set_response_timeout(None);
    client.get_multiplexed_async_connection_with_config(&config).await
}
