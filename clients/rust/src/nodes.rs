//! The addresses of the servers: one server, the master according to Sentinel, or the node of a key's slot.
//! The queries are in `sync` and `aio`; this module stores their results.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use redis::{
    cmd, from_redis_value_ref, Client, Cmd, Connection, ConnectionAddr, ConnectionInfo, ErrorKind, IntoConnectionInfo,
};
use redis::{RedisError, RedisResult, Value};

use crate::combined::Place;
use crate::spec::Spec;
use crate::util::{locked, timed_out, SHORT};

/// How many redirections of a command are followed before the cluster's slots are queried again.
pub(crate) const REDIRECTIONS: usize = 5;

/// The name of a node, `host:port`; empty without a cluster or Sentinel. Idle connections are kept by this name.
pub(crate) type Name = Arc<str>;

/// The target of a command.
pub(crate) struct Target {
    pub name: Name,
    /// Whether `ASKING` must be sent first.
    pub asking: bool,
}

/// The settings of the user's client, and what is known about the servers.
pub(crate) enum Nodes {
    One(Client),
    Many(Many),
}

/// Servers whose addresses are queried.
pub(crate) struct Many {
    /// Which servers to query, of which one is the first: nodes of the cluster, or Sentinels.
    seeds: Vec<ConnectionInfo>,
    first: AtomicUsize,
    /// The settings of connections to the nodes.
    node: ConnectionInfo,
    /// The name of the master that Sentinels monitor; `None` for a cluster.
    master: Option<String>,
    /// Which node serves which slots; the last entry of a slot is valid. A master has all keys in slot 0.
    known: Mutex<Vec<(RangeInclusive<u16>, Name)>>,
    /// The masters that were known last.
    masters: Mutex<Vec<Name>>,
}

impl Nodes {
    pub fn many(seeds: Vec<ConnectionInfo>, node: ConnectionInfo, master: Option<String>) -> Self {
        let (first, known, masters) = Default::default();
        Self::Many(Many { seeds, first, node, master, known, masters })
    }

    /// The node of this key, if it is known.
    pub fn target(&self, key: &[u8]) -> Option<Target> {
        let name = match self {
            Self::One(_) => Some(Name::from("")),
            Self::Many(many) => many.of(key),
        };
        name.map(|name| Target { name, asking: false })
    }

    /// The target, after its query.
    pub fn found(&self, key: &[u8]) -> RedisResult<Target> {
        let nowhere = || (ErrorKind::ClusterConnectionNotFound, "no node serves the slot of this key").into();
        self.target(key).ok_or_else(nowhere)
    }

    /// A client for a node.
    pub fn client(&self, name: &str) -> RedisResult<Client> {
        match self {
            Self::One(client) => Ok(client.clone()),
            Self::Many(many) => many.client(name),
        }
    }

    /// Whether `ROLE` must be that of a master: a Sentinel may name an old one.
    pub fn check_role(&self, role: impl FnOnce() -> RedisResult<Value>) -> RedisResult<()> {
        let role: Vec<Value> = from_redis_value_ref(&role()?)?;
        match role.first().map(from_redis_value_ref::<String>) {
            Some(Ok(role)) if role == "master" => Ok(()),
            _ => Err((ErrorKind::ClusterConnectionNotFound, "the server is not the master any more").into()),
        }
    }

    /// Whether it is one server.
    pub fn is_one(&self) -> bool {
        matches!(self, Self::One(_))
    }

    pub fn has_sentinels(&self) -> bool {
        matches!(self, Self::Many(many) if many.master.is_some())
    }

    /// The address of the server that serves this key, for messages, as far as it is known.
    pub fn address(&self, key: &[u8]) -> String {
        match self {
            Self::One(client) => client.get_connection_info().addr().to_string(),
            Self::Many(many) => {
                let last = || locked(&many.masters).first().filter(|_| many.master.is_some()).cloned();
                many.of(key).or_else(last).map_or_else(|| many.shown(), |name| name.to_string())
            }
        }
    }

    /// The parts of a multi-key lock for the slots of a cluster, in their order; `None` if all keys are in one slot.
    pub fn groups(&self, spec: &Spec) -> Option<Vec<Spec>> {
        let Self::Many(many) = self else { return None };
        let mut slots: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
        for (number, key) in spec.keys.iter().enumerate() {
            slots.entry(many.slot(key)).or_default().push(number);
        }
        (slots.len() > 1).then(|| slots.values().map(|numbers| spec.part(numbers)).collect())
    }

    /// Where a lock with this key is, by the names that the program gave: the same in all programs that give the same
    /// names.
    pub fn place(&self, key: &[u8]) -> Place {
        let (server, slot, node) = match self {
            Self::One(client) => {
                let node = client.get_connection_info();
                (node.addr().to_string(), 0, node)
            }
            Self::Many(many) => {
                let seeds = many.seeds.iter().map(|seed| seed.addr().to_string());
                (many.master.clone().or_else(|| seeds.min()).unwrap_or_default(), many.slot(key), &many.node)
            }
        };
        (server, slot, node.redis_settings().db())
    }

    /// The target to which an error reply redirects, if it does.
    pub fn redirected(&self, key: &[u8], error: &RedisError) -> Option<Target> {
        let Self::Many(many) = self else { return None };
        let name = many.complete(error.redirect_node()?.0);
        let asking = error.code() == Some("ASK");
        if !asking {
            let (mut known, slot) = (locked(&many.known), many.slot(key));
            known.retain(|(slots, _)| *slots != (slot..=slot));
            known.push((slot..=slot, name.clone()));
        }
        Some(Target { name, asking })
    }

    /// Discards what is known of a node, because it is or may be wrong; it is queried again.
    pub fn forget(&self, name: &Name) {
        if let Self::Many(many) = self {
            many.first.fetch_add(1, Ordering::Relaxed);
            locked(&many.known).retain(|(_, known)| known != name);
        }
    }

    /// The servers to query, one after the other until one replies: the user's, and the masters that were known last.
    pub fn candidates(&self) -> Vec<Client> {
        let Self::Many(many) = self else { return Vec::new() };
        let masters = if many.master.is_none() { locked(&many.masters).clone() } else { Vec::new() };
        let seeds = many.seeds.iter().map(|seed| Client::open(seed.clone()));
        let masters = masters.iter().map(|name| many.client(name));
        let mut candidates: Vec<Client> = seeds.chain(masters).filter_map(Result::ok).collect();
        let first = many.first.load(Ordering::Relaxed) % candidates.len().max(1);
        candidates.rotate_left(first);
        candidates
    }

    /// What to query them for.
    pub fn query(&self) -> Cmd {
        let mut command = cmd("CLUSTER");
        match self {
            Self::Many(Many { master: Some(master), .. }) => {
                command = cmd("SENTINEL");
                command.arg("GET-MASTER-ADDR-BY-NAME").arg(master)
            }
            _ => command.arg("SLOTS"),
        };
        command
    }

    /// Stores the reply of this server.
    pub fn learn(&self, from: &Client, reply: &Value) -> RedisResult<()> {
        let Self::Many(many) = self else { return Ok(()) };
        let known: Vec<(RangeInclusive<u16>, Name)> = if many.master.is_some() {
            let master: Option<(String, u16)> = from_redis_value_ref(reply)?;
            master.map(|(host, port)| (0..=0, format!("{host}:{port}").into())).into_iter().collect()
        } else {
            let host = host(from.get_connection_info());
            let entries: Vec<Vec<Value>> = from_redis_value_ref(reply)?;
            entries.iter().filter_map(|entry| served(entry, &host)).collect()
        };
        if known.is_empty() {
            let text = if many.master.is_some() { "no such master" } else { "no node of the cluster serves a slot" };
            return Err((ErrorKind::ClusterConnectionNotFound, text).into());
        }
        let mut masters: Vec<Name> = known.iter().map(|(_, name)| name.clone()).collect();
        masters.sort();
        masters.dedup();
        *locked(&many.masters) = masters;
        *locked(&many.known) = known;
        Ok(())
    }
}

impl Many {
    fn of(&self, key: &[u8]) -> Option<Name> {
        let (known, slot) = (locked(&self.known), self.slot(key));
        known.iter().rev().find(|(slots, _)| slots.contains(&slot)).map(|(_, name)| name.clone())
    }

    /// What the program has said about the servers.
    fn shown(&self) -> String {
        let what = self.master.as_ref().map_or_else(|| "the cluster".into(), |master| format!("the master {master:?}"));
        let seeds: Vec<String> = self.seeds.iter().map(|seed| seed.addr().to_string()).collect();
        format!("{what} of {}", seeds.join(", "))
    }

    fn slot(&self, key: &[u8]) -> u16 {
        if self.master.is_some() {
            0
        } else {
            slot(key)
        }
    }

    fn client(&self, name: &str) -> RedisResult<Client> {
        let parts = name.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
        let (host, port) = parts.ok_or((ErrorKind::ClusterConnectionNotFound, "no node is known"))?;
        Client::open(self.node.clone().set_addr(addressed(self.node.addr(), host, port)))
    }

    /// `:port` in a redirection means the same host; then all nodes are on one host.
    fn complete(&self, address: &str) -> Name {
        match address.strip_prefix(':') {
            Some(port) => format!("{}:{port}", host(&self.node)).into(),
            None => address.into(),
        }
    }
}

/// What is between the first braces of a key, if there is anything.
pub(crate) fn hash_tag(key: &[u8]) -> Option<&[u8]> {
    let open = key.iter().position(|&byte| byte == b'{')?;
    let rest = &key[open + 1..];
    rest.iter().position(|&byte| byte == b'}').filter(|&end| end > 0).map(|end| &rest[..end])
}

/// The slot of a key: the CRC16 (XMODEM) of the key, or of its hash tag.
fn slot(key: &[u8]) -> u16 {
    let step = |crc: u16, _| if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
    let crc = hash_tag(key).unwrap_or(key).iter().fold(0, |crc, &byte| (0..8).fold(crc ^ u16::from(byte) << 8, step));
    crc % 16_384
}

/// A blocking connection. redis-rs ignores that a server does not reply to some of its first commands.
pub(crate) fn connect_within(client: &Client, limit: Duration) -> RedisResult<Connection> {
    let began = Instant::now();
    let connection = client.get_connection_with_timeout(limit)?;
    if began.elapsed() >= limit {
        return Err(timed_out());
    }
    connection.set_read_timeout(Some(limit))?;
    connection.set_write_timeout(Some(limit.min(SHORT)))?;
    Ok(connection)
}

fn host(info: &ConnectionInfo) -> String {
    match info.addr() {
        ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host.clone(),
        _ => String::from("127.0.0.1"),
    }
}

/// The slots of one entry of `CLUSTER SLOTS`, and their master; `None` if the entry is invalid.
fn served(entry: &[Value], from_host: &str) -> Option<(RangeInclusive<u16>, Name)> {
    let [first, last, Value::Array(master), ..] = entry else { return None };
    let host: Option<String> = from_redis_value_ref(master.first()?).ok()?;
    let host = host.filter(|host| !host.is_empty()).unwrap_or_else(|| from_host.to_string());
    let port: u16 = from_redis_value_ref(master.get(1)?).ok()?;
    let first: u16 = from_redis_value_ref(first).ok()?;
    let last: u16 = from_redis_value_ref(last).ok()?;
    Some((first..=last, format!("{host}:{port}").into()))
}

fn addressed(like: &ConnectionAddr, host: &str, port: u16) -> ConnectionAddr {
    match like {
        ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
            ConnectionAddr::TcpTls { host: host.to_string(), port, insecure: *insecure, tls_params: tls_params.clone() }
        }
        _ => ConnectionAddr::Tcp(host.to_string(), port),
    }
}

/// The user's addresses, in redis-rs's type; at least one.
pub(crate) fn infos<T: IntoConnectionInfo>(nodes: impl IntoIterator<Item = T>) -> RedisResult<Vec<ConnectionInfo>> {
    let infos = nodes.into_iter().map(IntoConnectionInfo::into_connection_info).collect::<RedisResult<Vec<_>>>()?;
    if infos.is_empty() {
        return Err((ErrorKind::InvalidClientConfig, "there must be at least one address").into());
    }
    Ok(infos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_cluster() {
        let slots = ["", "123456789", "a", "{a}b", "x{a}b{c}", "{}a", "{a"].map(|key| slot(key.as_bytes()));
        assert_eq!(slots, [0, 12739, 15495, 15495, 15495, slot(b"{}a"), slot(b"{a")]);
        assert_ne!(slot(b"{}a"), slot(b"a"));
    }

    #[test]
    fn the_newest_information_on_a_slot_is_used() {
        let seeds = infos(["redis://10.0.0.1:1"]).unwrap();
        let nodes = Nodes::many(seeds.clone(), seeds[0].clone(), None);
        assert_eq!(nodes.address(b"a"), "the cluster of 10.0.0.1:1");
        let from = Client::open("redis://10.0.0.1:1").unwrap();
        let node = Value::Array(vec![Value::BulkString(b"".to_vec()), Value::Int(7)]);
        let reply = Value::Array(vec![Value::Array(vec![Value::Int(0), Value::Int(16383), node])]);
        nodes.learn(&from, &reply).unwrap();
        assert_eq!(&*nodes.target(b"a").unwrap().name, "10.0.0.1:7");
        assert_eq!(nodes.address(b"a"), "10.0.0.1:7");

        let redirected = |reply: &[u8]| {
            let error = redis::parse_redis_value(reply).unwrap().extract_error().unwrap_err();
            let target = nodes.redirected(b"a", &error).unwrap();
            (target.name.to_string(), target.asking)
        };
        assert_eq!(redirected(b"-ASK 15495 10.0.0.2:8\r\n"), ("10.0.0.2:8".into(), true));
        assert_eq!(&*nodes.target(b"a").unwrap().name, "10.0.0.1:7", "ASK is valid for one command");
        assert_eq!(redirected(b"-MOVED 15495 :9\r\n"), ("10.0.0.1:9".into(), false));
        assert_eq!(&*nodes.target(b"a").unwrap().name, "10.0.0.1:9");
        nodes.forget(&"10.0.0.1:7".into());
        assert!(nodes.target(b"a").is_some(), "another node has its slot");
        assert!(nodes.target(b"b").is_none());
        nodes.forget(&"10.0.0.1:9".into());
        assert!(nodes.target(b"a").is_none());
        assert_eq!(nodes.address(b"a"), "the cluster of 10.0.0.1:1");
    }

    #[test]
    fn the_master_is_the_one_that_a_sentinel_names() {
        let seeds = infos(["redis://10.0.0.1:1", "redis://10.0.0.2:1"]).unwrap();
        let node = "redis://:secret@master/3".into_connection_info().unwrap();
        let nodes = Nodes::many(seeds, node, Some("main".into()));
        let from = nodes.candidates().remove(0);
        assert!(nodes.learn(&from, &Value::Nil).is_err());
        assert_eq!(nodes.address(b"any"), "the master \"main\" of 10.0.0.1:1, 10.0.0.2:1");
        let reply = Value::Array(vec![Value::BulkString(b"10.0.0.3".to_vec()), Value::BulkString(b"7".to_vec())]);
        nodes.learn(&from, &reply).unwrap();
        let name = nodes.target(b"any").unwrap().name;
        assert_eq!(nodes.client(&name).unwrap().get_connection_info().redis_settings().db(), 3);
        assert_eq!((&*name, nodes.address(b"any")), ("10.0.0.3:7", name.to_string()));
        nodes.forget(&name);
        assert_eq!(nodes.candidates()[0].get_connection_info().addr().to_string(), "10.0.0.2:1");
    }
}
