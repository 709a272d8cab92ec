//! Connections of our own, each used by one request at a time, and kept for the next.
//!
//! redis-rs's connections can be shared, but a command that waits would hold up all others; and its time-out for
//! replies, which leaves the command waiting in the server, is off here.

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

/// What has become of a command.
pub(crate) struct Answer {
    pub said: RedisResult<Value>,
    /// The connection that it came from, if it is of further use.
    pub line: Option<Line>,
    /// Whether it was sent, now or before, without a reply.
    pub unsure: bool,
}

/// A command, and what is known of its way.
pub(crate) struct Sending<'a> {
    pub command: &'a Cmd,
    /// How long to listen for its reply.
    pub listen: Duration,
    /// Becomes true when it is sent.
    pub is_sent: &'a AtomicBool,
}

/// A connection and the node that it leads to.
pub(crate) struct Line {
    name: Name,
    connection: MultiplexedConnection,
}

impl Line {
    /// Sends a command, and listens for its reply for so long. After an error of the connection's it is of no more use.
    pub async fn ask(&mut self, command: &Cmd, listen: Duration) -> RedisResult<Value> {
        let reply = timeout(listen, command.query_async(&mut self.connection)).await;
        reply.unwrap_or_else(|_| Err(timed_out("the server has not answered in time")))
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
            Err(error) => return Answer { said: Err(error), line: None, unsure },
        };
        let mut left = REDIRECTIONS;
        loop {
            let (said, line) = self.ask(&target, &sending, &mut unsure).await;
            let Err(error) = &said else { return Answer { said, line, unsure } };
            match self.nodes.redirected(key, error).filter(|_| left > 0) {
                Some(other) => {
                    line.into_iter().for_each(|line| self.keep(line));
                    (target, left) = (other, left - 1);
                }
                None if again(error) => {
                    self.forget(&target.name);
                    return Answer { said, line: None, unsure };
                }
                None => return Answer { said, line, unsure },
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
            let said = say(&mut line, target, sending, unsure).await;
            // A connection that was closed while nobody needed it says nothing about the server.
            if !said.as_ref().is_err_and(|error| error.is_connection_dropped()) {
                return (said, Some(line));
            }
            locked(&self.idle).remove(&target.name);
        }
        match self.connect(&target.name, sending.listen.min(SHORT)).await {
            Err(error) => (Err(error), None),
            Ok(mut line) => (say(&mut line, target, sending, unsure).await, Some(line)),
        }
    }

    async fn connect(&self, name: &Name, limit: Duration) -> RedisResult<Line> {
        let client = match &self.nodes {
            Nodes::One(client) => client.clone(),
            Nodes::Cluster(slots) => slots.client(name)?,
            Nodes::Sentinel(sentinels) => {
                let found = timeout(limit, sentinels.client()?.async_get_client()).await;
                found.unwrap_or_else(|_| Err(timed_out("no Sentinel has answered in time")))?
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

async fn say(line: &mut Line, target: &Target, sending: &Sending<'_>, unsure: &mut bool) -> RedisResult<Value> {
    if target.asking {
        line.ask(&cmd("ASKING"), SHORT).await?;
    }
    sending.is_sent.store(true, Ordering::Relaxed);
    let said = line.ask(sending.command, sending.listen).await;
    *unsure |= said.as_ref().is_err_and(|error| matches!(error.kind(), ErrorKind::Io | ErrorKind::Parse));
    said
}

async fn connected(client: &Client, limit: Duration) -> RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new().set_connection_timeout(Some(limit)).set_response_timeout(None);
    client.get_multiplexed_async_connection_with_config(&config).await
}

/// Asks one of the cluster's nodes after the other who has which slots.
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
    reply.unwrap_or_else(|_| Err(timed_out("the server has not answered in time")))
}
