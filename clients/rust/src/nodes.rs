//! The addresses of the servers: one server, the master according to Sentinel, or the node of a key's slot.
//! The queries are in `sync` and `aio`; this module stores their results.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use redis::cluster_routing::Slot;
use redis::sentinel::{SentinelClient, SentinelNodeConnectionInfo, SentinelServerType};
#[cfg(feature = "tokio")]
use redis::Cmd;
use redis::{from_redis_value_ref, Client, ConnectionAddr, ConnectionInfo, ErrorKind, IntoConnectionInfo};
use redis::{RedisError, RedisResult, Value};

use crate::util::locked;
#[cfg(feature = "tokio")]
use crate::util::SHORT;

/// How many idle connections to a node are kept.
pub(crate) const KEPT: usize = 16;
/// How many redirections of a command are followed before the cluster's slots are queried again.
pub(crate) const REDIRECTIONS: usize = 5;

/// The name of a node, `host:port`; empty without a cluster. Idle connections are kept by this name.
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
    Sentinel(Sentinels),
    Cluster(Slots),
}

impl Nodes {
    /// The node of this key, if it is known.
    pub fn target(&self, key: &[u8]) -> Option<Target> {
        let name = match self {
            Self::One(_) | Self::Sentinel(_) => Some(Name::from("")),
            Self::Cluster(slots) => slots.of(key),
        };
        name.map(|name| Target { name, asking: false })
    }

    /// The address of the server that serves this key, for messages, as far as it is known.
    pub fn address(&self, key: &[u8]) -> String {
        match self {
            Self::One(client) => client.get_connection_info().addr().to_string(),
            Self::Sentinel(sentinels) => {
                locked(&sentinels.found).clone().unwrap_or_else(|| format!("the master {:?}", sentinels.master))
            }
            Self::Cluster(slots) => slots.of(key).map_or_else(|| "the cluster".into(), |name| name.to_string()),
        }
    }

    /// Sends commands on a blocking connection, where nothing else can be done any more.
    #[cfg(feature = "tokio")]
    pub fn send_blocking(&self, key: &[u8], commands: &[Cmd]) -> RedisResult<()> {
        let client = match self {
            Self::One(client) => client.clone(),
            Self::Sentinel(sentinels) => sentinels.client()?.get_client()?,
            Self::Cluster(slots) => slots.client(&slots.of(key).unwrap_or_else(|| Name::from("")))?,
        };
        let mut connection = client.get_connection_with_timeout(SHORT)?;
        connection.set_read_timeout(Some(SHORT))?;
        commands.iter().try_for_each(|command| command.query::<Value>(&mut connection).map(drop))
    }

    /// The target to which an error reply redirects, if it does.
    pub fn redirected(&self, key: &[u8], error: &RedisError) -> Option<Target> {
        let Self::Cluster(slots) = self else { return None };
        let name = slots.complete(error.redirect_node()?.0)?;
        let asking = error.code() == Some("ASK");
        if !asking {
            locked(&slots.known).insert(Slot::for_key(key), name.clone());
        }
        Some(Target { name, asking })
    }

    /// Discards what is known, because it is or may be wrong; it is queried again.
    pub fn forget(&self) {
        match self {
            Self::One(_) => {}
            Self::Sentinel(sentinels) => sentinels.rotate(),
            Self::Cluster(slots) => locked(&slots.known).clear(),
        }
    }
}

/// The Sentinels of a master.
pub(crate) struct Sentinels {
    sentinels: Vec<ConnectionInfo>,
    master: String,
    settings: SentinelNodeConnectionInfo,
    first: AtomicUsize,
    /// The address of the master that was connected last.
    found: Mutex<Option<String>>,
}

impl Sentinels {
    pub fn new(sentinels: Vec<ConnectionInfo>, master: String, settings: SentinelNodeConnectionInfo) -> Self {
        Self { sentinels, master, settings, first: AtomicUsize::new(0), found: Mutex::default() }
    }

    /// redis-rs's client for them: a new one each time, because one that hangs on an unresponsive Sentinel cannot be
    /// used again.
    pub fn client(&self) -> RedisResult<SentinelClient> {
        let mut sentinels = self.sentinels.clone();
        if !sentinels.is_empty() {
            let first = self.first.load(Ordering::Relaxed) % sentinels.len();
            sentinels.rotate_left(first);
        }
        #[allow(clippy::useless_conversion)] // The type of the name depends on redis-rs's features.
        SentinelClient::build(
            sentinels,
            self.master.clone().into(),
            Some(self.settings.clone()),
            SentinelServerType::Master,
        )
    }

    /// Records which master was found.
    pub fn found(&self, client: Client) -> Client {
        *locked(&self.found) = Some(client.get_connection_info().addr().to_string());
        client
    }

    /// Makes the next Sentinel the first one to be queried.
    fn rotate(&self) {
        self.first.fetch_add(1, Ordering::Relaxed);
    }
}

/// A cluster: which node serves which slot.
pub(crate) struct Slots {
    seeds: Vec<ConnectionInfo>,
    known: Mutex<HashMap<Slot, Name>>,
    /// The masters that were known last, which are queried if no seed can be reached.
    masters: Mutex<Vec<Name>>,
}

impl Slots {
    pub fn new(seeds: Vec<ConnectionInfo>) -> Self {
        Self { seeds, known: Mutex::default(), masters: Mutex::default() }
    }

    fn of(&self, key: &[u8]) -> Option<Name> {
        locked(&self.known).get(&Slot::for_key(key)).cloned()
    }

    /// The nodes to query for the slots: the user's, then the masters that were known last.
    pub fn candidates(&self) -> Vec<Client> {
        let seeds = self.seeds.iter().map(|seed| Client::open(seed.clone()));
        let masters = locked(&self.masters).clone();
        seeds.chain(masters.iter().map(|name| self.client(name))).filter_map(Result::ok).collect()
    }

    /// Stores the reply of `asked` to `CLUSTER SLOTS`.
    pub fn learn(&self, asked: &Client, reply: Value) -> RedisResult<()> {
        let host = host(asked.get_connection_info());
        let entries: Vec<Vec<Value>> = from_redis_value_ref(&reply)?;
        let known: HashMap<_, _> = entries.iter().filter_map(|entry| served(entry, &host)).flatten().collect();
        if known.is_empty() {
            return Err((ErrorKind::ClusterConnectionNotFound, "no node of the cluster serves a slot").into());
        }
        let mut masters: Vec<Name> = known.values().cloned().collect();
        masters.sort();
        masters.dedup();
        *locked(&self.masters) = masters;
        *locked(&self.known) = known;
        Ok(())
    }

    /// A client for a node, with the settings of the user's first node.
    pub fn client(&self, name: &str) -> RedisResult<Client> {
        let unknown = || RedisError::from((ErrorKind::ClusterConnectionNotFound, "no node is known"));
        let seed = self.seeds.first().ok_or_else(unknown)?;
        let (host, port) = name.rsplit_once(':').ok_or_else(unknown)?;
        let port = port.parse().map_err(|_| unknown())?;
        Client::open(seed.clone().set_addr(addressed(seed.addr(), host, port)))
    }

    /// `:port` in a redirection means the same host; then all nodes are on one host.
    fn complete(&self, address: &str) -> Option<Name> {
        match address.strip_prefix(':') {
            Some(port) => Some(format!("{}:{port}", host(self.seeds.first()?)).into()),
            None => Some(address.into()),
        }
    }
}

fn host(info: &ConnectionInfo) -> String {
    match info.addr() {
        ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host.clone(),
        _ => String::from("127.0.0.1"),
    }
}

/// The slots of one entry of `CLUSTER SLOTS`, each with its master; `None` if the entry is invalid.
fn served(entry: &[Value], asked_host: &str) -> Option<impl Iterator<Item = (Slot, Name)>> {
    let [first, last, Value::Array(master), ..] = entry else { return None };
    let host: Option<String> = from_redis_value_ref(master.first()?).ok()?;
    let host = host.filter(|host| !host.is_empty()).unwrap_or_else(|| asked_host.to_string());
    let port: u16 = from_redis_value_ref(master.get(1)?).ok()?;
    let first: u16 = from_redis_value_ref(first).ok()?;
    let last: u16 = from_redis_value_ref(last).ok()?;
    let name = Name::from(format!("{host}:{port}"));
    Some((first..=last).filter_map(Slot::new).map(move |slot| (slot, name.clone())))
}

fn addressed(like: &ConnectionAddr, host: &str, port: u16) -> ConnectionAddr {
    match like {
        ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
            ConnectionAddr::TcpTls { host: host.to_string(), port, insecure: *insecure, tls_params: tls_params.clone() }
        }
        _ => ConnectionAddr::Tcp(host.to_string(), port),
    }
}

/// The user's addresses, in redis-rs's type.
pub(crate) fn infos<T: IntoConnectionInfo>(nodes: impl IntoIterator<Item = T>) -> RedisResult<Vec<ConnectionInfo>> {
    nodes.into_iter().map(IntoConnectionInfo::into_connection_info).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_information_on_a_slot_is_used() {
        let nodes = Nodes::Cluster(Slots::new(infos(["redis://10.0.0.1:1"]).unwrap()));
        let Nodes::Cluster(slots) = &nodes else { unreachable!() };
        let asked = Client::open("redis://10.0.0.1:1").unwrap();
        let node = Value::Array(vec![Value::BulkString(b"".to_vec()), Value::Int(7)]);
        let reply = Value::Array(vec![Value::Array(vec![Value::Int(0), Value::Int(16383), node])]);
        slots.learn(&asked, reply).unwrap();
        assert_eq!(&*nodes.target(b"a").unwrap().name, "10.0.0.1:7");

        let redirected = |reply: &[u8]| {
            let error = redis::parse_redis_value(reply).unwrap().extract_error().unwrap_err();
            let target = nodes.redirected(b"a", &error).unwrap();
            (target.name.to_string(), target.asking)
        };
        assert_eq!(redirected(b"-ASK 15495 10.0.0.2:8\r\n"), ("10.0.0.2:8".into(), true));
        assert_eq!(&*nodes.target(b"a").unwrap().name, "10.0.0.1:7", "ASK is valid for one command");
        assert_eq!(redirected(b"-MOVED 15495 :9\r\n"), ("10.0.0.1:9".into(), false));
        assert_eq!(&*nodes.target(b"a").unwrap().name, "10.0.0.1:9");
        nodes.forget();
        assert!(nodes.target(b"a").is_none());
    }
}
