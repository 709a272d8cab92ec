//! What the server shows about a lock.

use std::collections::HashMap;
use std::time::Duration;

use redis::{from_redis_value_ref, FromRedisValue, Value};

use crate::spec::shown;

/// Who holds a lock, and who waits for it. Of a multi-key lock it has the entries of all keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockInfo {
    /// Who holds it; an owner that reads and writes is shown twice.
    pub holders: Vec<Holder>,
    /// How many wait for it; of several keys, the sum.
    pub waiting: u64,
    /// The first ten of these of each key, in the order of the queue.
    pub waiters: Vec<Waiter>,
}

/// A holder of a key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The key.
    pub key: String,
    /// The name of the owner: `host:pid:random` if it uses one of the project's packages.
    pub owner: String,
    /// `exclusive`, `write`, `read` or `semaphore`.
    pub mode: String,
    /// How many holds, or permits, the owner has in this mode.
    pub holds: u64,
    /// How much of its lease is left; `None` if the key has no TTL.
    pub left: Option<Duration>,
    /// Whether it is bound to a connection.
    pub session: bool,
}

/// A waiter for a key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiter {
    /// The key.
    pub key: String,
    /// The name of the owner.
    pub owner: String,
    /// `exclusive`, `write`, `read` or `semaphore`.
    pub mode: String,
    /// Whether it is in the fair queue.
    pub fair: bool,
    /// For how long it has waited.
    pub waited: Duration,
    /// How long it will still wait; `None` if it has no limit.
    pub left: Option<Duration>,
}

/// The fields of a reply. Unknown ones are ignored, and missing ones have their defaults.
struct Fields(HashMap<String, Value>);

impl Fields {
    fn of(reply: &Value) -> Self {
        Self(from_redis_value_ref(reply).unwrap_or_default())
    }

    fn get<T: FromRedisValue>(&self, name: &str) -> Option<T> {
        self.0.get(name).and_then(|value| from_redis_value_ref::<Option<T>>(value).ok()).flatten()
    }

    fn text(&self, name: &str) -> String {
        shown(&self.get::<Vec<u8>>(name).unwrap_or_default())
    }

    /// `None` for null, and for -1.
    fn time(&self, name: &str) -> Option<Duration> {
        self.get::<i64>(name).and_then(|ms| u64::try_from(ms).ok()).map(Duration::from_millis)
    }

    fn list(&self, name: &str) -> Vec<Self> {
        self.get::<Vec<Value>>(name).unwrap_or_default().iter().map(Self::of).collect()
    }
}

impl LockInfo {
    /// Adds the reply of `LOCK.INFO` for this key.
    pub(crate) fn add(&mut self, key: &[u8], reply: &Value) {
        let (fields, key) = (Fields::of(reply), shown(key));
        self.holders.extend(fields.list("holders").iter().map(|holder| Holder {
            key: key.clone(),
            owner: holder.text("owner"),
            mode: holder.text("mode"),
            holds: holder.get("holds").unwrap_or_default(),
            left: holder.time("pttl"),
            session: holder.get::<u64>("session").is_some(),
        }));
        self.waiting += fields.get::<u64>("waiting").unwrap_or_default();
        self.waiters.extend(fields.list("waiters").iter().map(|waiter| Waiter {
            key: key.clone(),
            owner: waiter.text("owner"),
            mode: waiter.text("mode"),
            fair: waiter.get("fair").unwrap_or_default(),
            waited: waiter.time("waited").unwrap_or_default(),
            left: waiter.time("left"),
        }));
    }
}
