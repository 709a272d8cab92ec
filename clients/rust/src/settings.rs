//! The settings of a factory of locks.

use std::time::Duration;

use redis::{Client, IntoConnectionInfo, RedisResult};

use crate::nodes::{infos, Nodes};
use crate::util::capped;
use crate::{Error, Result};

/// The servers of the locks, and how to wait there.
///
/// Only addresses, credentials and TLS settings are taken from a client, never its connections or time-outs.
pub struct Settings {
    pub(crate) nodes: Nodes,
    pub(crate) max_block: Duration,
    pub(crate) connect_timeout: Duration,
}

impl Settings {
    /// One server, that of this client.
    pub fn single(client: &Client) -> Self {
        Self::of(Nodes::One(client.clone()))
    }

    /// A cluster with these nodes, as in `ClusterClient::new`. The credentials and TLS settings are those of the first
    /// one.
    ///
    /// # Errors
    ///
    /// One of the nodes is not a valid address.
    pub fn cluster<T: IntoConnectionInfo>(nodes: impl IntoIterator<Item = T>) -> RedisResult<Self> {
        let seeds = infos(nodes)?;
        let node = seeds[0].clone();
        Ok(Self::of(Nodes::many(seeds, node, None)))
    }

    /// The master with this name, whose address is queried from these Sentinels. Its credentials, its database and its
    /// TLS settings are those of `node`, such as `redis://:password@master/`; the host and the port there are ignored.
    ///
    /// # Errors
    ///
    /// One of these is not a valid address.
    pub fn sentinel<T: IntoConnectionInfo>(
        sentinels: impl IntoIterator<Item = T>,
        master: impl Into<String>,
        node: impl IntoConnectionInfo,
    ) -> RedisResult<Self> {
        Ok(Self::of(Nodes::many(infos(sentinels)?, node.into_connection_info()?, Some(master.into()))))
    }

    /// How long one command blocks at most; 30 seconds by default. Then the request is sent again. A server that has
    /// not replied two seconds later is considered unreachable.
    ///
    /// # Errors
    ///
    /// [`InvalidOption`](Error::InvalidOption) if it is zero.
    pub fn max_block(mut self, max_block: Duration) -> Result<Self> {
        self.max_block = positive("max_block", max_block)?;
        Ok(self)
    }

    /// How long an attempt to connect may take, and after what time an acquisition returns
    /// [`Error::Connection`] if no connection has ever succeeded; 5 seconds by default. Once connected, waits survive
    /// outages.
    ///
    /// # Errors
    ///
    /// [`InvalidOption`](Error::InvalidOption) if it is zero.
    pub fn connect_timeout(mut self, connect_timeout: Duration) -> Result<Self> {
        self.connect_timeout = positive("connect_timeout", connect_timeout)?;
        Ok(self)
    }

    fn of(nodes: Nodes) -> Self {
        Self { nodes, max_block: Duration::from_secs(30), connect_timeout: Duration::from_secs(5) }
    }
}

fn positive(name: &str, time: Duration) -> Result<Duration> {
    if time.is_zero() {
        let text = format!("{name} must be greater than 0, not 0");
        return Err(Error::InvalidOption { lock: "Settings".into(), text });
    }
    Ok(capped(time))
}

impl From<&Client> for Settings {
    fn from(client: &Client) -> Self {
        Self::single(client)
    }
}
