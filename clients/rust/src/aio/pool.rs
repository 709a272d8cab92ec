//! The crate's own connections. Each is used by one request at a time, and kept for the next one.
//!
//! redis-rs's connections can be shared, but a command that blocks would block all others. redis-rs's time-out for
//! replies, which leaves the command waiting on the server, is turned off here.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{cmd, AsyncConnectionConfig, Client, Cmd, ErrorKind, RedisResult, Value};
use tokio::time::timeout;

use crate::nodes::{Name, Nodes, Slots, Target, KEPT, REDIRECTIONS};
use crate::util::{again, locked, timed_out, SHORT};

pub(crate) struct Pool {
    nodes: Nodes,
    idle: Mutex<HashMap<Name, Vec<MultiplexedConnection>>>,
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
    pub command: &'a Cmd,
    /// How long to wait for its reply.
    pub listen: Duration,
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
    pub fn new(nodes: Nodes) -> Self {
        Self { nodes, idle: Mutex::default() }
    }

    /// Sends a command to the node of `key`.
    pub async fn call(&self, key: &[u8], sending: Sending<'_>) -> Answer {
        let mut unsure = false;
        let mut target = match self.target(key).await {
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
                None if again(error) => {
                    self.forget(&target.name);
                    return Answer { reply, line: None, unsure };
                }
                None => return Answer { reply, line, unsure },
            }
        }
    }

    /// The same for a short command, whose connection is kept.
    pub async fn short(&self, key: &[u8], command: &Cmd, listen: Duration) -> Answer {
        let is_sent = AtomicBool::default();
        let mut answer = self.call(key, Sending { command, listen, is_sent: &is_sent }).await;
        answer.line.take().into_iter().for_each(|line| self.keep(line));
        answer
    }

    /// Keeps a connection for the next request.
    pub fn keep(&self, line: Line) {
        let mut idle = locked(&self.idle);
        let kept = idle.entry(line.name).or_default();
        if kept.len() < KEPT {
            kept.push(line.connection);
        }
    }

    fn forget(&self, name: &Name) {
        self.nodes.forget();
        locked(&self.idle).remove(name);
    }

    async fn ask(
        &self,
        target: &Target,
        sending: &Sending<'_>,
        unsure: &mut bool,
    ) -> (RedisResult<Value>, Option<Line>) {
        let kept = locked(&self.idle).get_mut(&target.name).and_then(Vec::pop);
        if let Some(connection) = kept {
            let mut line = Line { name: target.name.clone(), connection };
            let reply = send(&mut line, target, sending, unsure).await;
            // An idle connection that was closed shows nothing about the state of the server.
            if !reply.as_ref().is_err_and(|error| error.is_connection_dropped()) {
                return (reply, Some(line));
            }
            locked(&self.idle).remove(&target.name);
        }
        match self.connect(&target.name, sending.listen.min(SHORT)).await {
            Err(error) => (Err(error), None),
            Ok(mut line) => (send(&mut line, target, sending, unsure).await, Some(line)),
        }
    }

    async fn connect(&self, name: &Name, limit: Duration) -> RedisResult<Line> {
        let client = match &self.nodes {
            Nodes::One(client) => client.clone(),
            Nodes::Cluster(slots) => slots.client(name)?,
            Nodes::Sentinel(sentinels) => {
                let found = timeout(limit, sentinels.client()?.async_get_client()).await;
                found.unwrap_or_else(|_| Err(timed_out("no Sentinel has replied in time")))?
            }
        };
        Ok(Line { name: name.clone(), connection: connected(&client, limit).await? })
    }

    async fn target(&self, key: &[u8]) -> RedisResult<Target> {
        let nowhere = || (ErrorKind::ClusterConnectionNotFound, "no node serves the slot of this key").into();
        match (self.nodes.target(key), &self.nodes) {
            (None, Nodes::Cluster(slots)) => {
                look_up(slots).await?;
                self.nodes.target(key).ok_or_else(nowhere)
            }
            (target, _) => target.ok_or_else(nowhere),
        }
    }
}

async fn send(line: &mut Line, target: &Target, sending: &Sending<'_>, unsure: &mut bool) -> RedisResult<Value> {
    if target.asking {
        line.ask(&cmd("ASKING"), SHORT).await?;
    }
    sending.is_sent.store(true, Ordering::Relaxed);
    let reply = line.ask(sending.command, sending.listen).await;
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
