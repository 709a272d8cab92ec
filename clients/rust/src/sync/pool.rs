//! The crate's own connections. Each is used by one request at a time, and kept for the next one.

use std::collections::HashMap;
use std::sync::mpsc;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use redis::{cmd, Client, Cmd, Connection, ErrorKind, RedisResult, Value};

use crate::nodes::{Name, Nodes, Slots, Target, KEPT, REDIRECTIONS};
use crate::util::{again, locked, timed_out, SHORT};

pub(crate) struct Pool {
    nodes: Nodes,
    idle: Mutex<HashMap<Name, Vec<Connection>>>,
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
    pub fn new(nodes: Nodes) -> Self {
        Self { nodes, idle: Mutex::default() }
    }

    /// Sends a command to the node of `key`, and waits for its reply for `listen`.
    pub fn call(&self, key: &[u8], command: &Cmd, listen: Duration) -> Answer {
        let mut unsure = false;
        let mut target = match self.target(key) {
            Ok(target) => target,
            Err(error) => return Answer { reply: Err(error), line: None, unsure },
        };
        let mut left = REDIRECTIONS;
        loop {
            let (reply, line) = self.ask(&target, command, listen, &mut unsure);
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
    pub fn short(&self, key: &[u8], command: &Cmd, listen: Duration) -> Answer {
        let mut answer = self.call(key, command, listen);
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

    fn ask(
        &self,
        target: &Target,
        command: &Cmd,
        listen: Duration,
        unsure: &mut bool,
    ) -> (RedisResult<Value>, Option<Line>) {
        let kept = locked(&self.idle).get_mut(&target.name).and_then(Vec::pop);
        if let Some(connection) = kept {
            let mut line = Line { name: target.name.clone(), connection };
            let reply = self.send(&mut line, target, command, listen, unsure);
            // An idle connection that was closed shows nothing about the state of the server.
            if !reply.as_ref().is_err_and(|error| error.is_connection_dropped()) {
                return (reply, Some(line));
            }
            locked(&self.idle).remove(&target.name);
        }
        match self.connect(&target.name, listen.min(SHORT)) {
            Err(error) => (Err(error), None),
            Ok(mut line) => (self.send(&mut line, target, command, listen, unsure), Some(line)),
        }
    }

    fn send(
        &self,
        line: &mut Line,
        target: &Target,
        command: &Cmd,
        listen: Duration,
        unsure: &mut bool,
    ) -> RedisResult<Value> {
        if target.asking {
            line.ask(&cmd("ASKING"), SHORT)?;
        }
        let reply = line.ask(command, listen);
        *unsure |= reply.as_ref().is_err_and(|error| matches!(error.kind(), ErrorKind::Io | ErrorKind::Parse));
        reply
    }

    fn connect(&self, name: &Name, limit: Duration) -> RedisResult<Line> {
        let client = match &self.nodes {
            Nodes::One(client) => client.clone(),
            Nodes::Cluster(slots) => slots.client(name)?,
            Nodes::Sentinel(sentinels) => {
                let mut client = sentinels.client()?;
                in_time(limit, move || client.get_client())?
            }
        };
        Ok(Line { name: name.clone(), connection: client.get_connection_with_timeout(limit)? })
    }

    fn target(&self, key: &[u8]) -> RedisResult<Target> {
        let nowhere = || (ErrorKind::ClusterConnectionNotFound, "no node serves the slot of this key").into();
        match (self.nodes.target(key), &self.nodes) {
            (None, Nodes::Cluster(slots)) => {
                look_up(slots)?;
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

/// The result of `ask`, if it returns in time: redis-rs has no time-out for a Sentinel that does not respond.
fn in_time<T: Send + 'static>(
    limit: Duration,
    ask: impl FnOnce() -> RedisResult<T> + Send + 'static,
) -> RedisResult<T> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let _ = sender.send(ask());
    });
    receiver.recv_timeout(limit).unwrap_or_else(|_| Err(timed_out("no Sentinel has replied in time")))
}
