//! What the attempts of an acquisition have in common in both flavours: how long each may take, what follows a failed
//! one, and the error in the end.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use redis::{RedisError, Value};

use crate::error::NotAcquired;
use crate::hold::Hold;
use crate::nodes::Nodes;
use crate::spec::{Kind, Spec};
use crate::util::{locked, Call, Pause, Wait, LATE, LATE_REPLY};
use crate::{Error, Settings};

/// What the acquisitions of a factory share.
pub(crate) struct Shared {
    pub max_block: Duration,
    pub connect_timeout: Duration,
    /// Whether a connection has ever succeeded.
    pub connected: Arc<AtomicBool>,
    /// What `close` ends; `None` after that.
    live: Mutex<Option<Live>>,
}

/// What a factory has in use: waits and holds, by their owners.
#[derive(Default)]
pub(crate) struct Live {
    pub waits: HashMap<String, Arc<Spec>>,
    pub holds: HashMap<String, Arc<Hold>>,
}

impl Shared {
    /// The parts of the settings.
    pub fn new(settings: Settings) -> (Self, Nodes) {
        let Settings { nodes, max_block, connect_timeout } = settings;
        (Self { max_block, connect_timeout, connected: Arc::default(), live: Mutex::new(Some(Live::default())) }, nodes)
    }

    pub fn is_closed(&self) -> bool {
        locked(&self.live).is_none()
    }

    /// Begins an acquisition, before anything is sent.
    pub fn begin(&self, owner: &str, spec: &Arc<Spec>) -> Result<(), Error> {
        spec.check(self.max_block)?;
        let mut live = locked(&self.live);
        let Some(live) = live.as_mut() else { return Err(Error::Closed { lock: spec.to_string() }) };
        live.waits.insert(owner.to_string(), spec.clone());
        Ok(())
    }

    /// Ends an acquisition.
    pub fn end(&self, owner: &str) {
        locked(&self.live).as_mut().map(|live| live.waits.remove(owner));
    }

    /// Records a hold. Returns false if the factory has been closed.
    pub fn add(&self, hold: &Arc<Hold>) -> bool {
        locked(&self.live).as_mut().map(|live| live.holds.insert(hold.owner.clone(), hold.clone())).is_some()
    }

    pub fn remove(&self, owner: &str) {
        locked(&self.live).as_mut().map(|live| live.holds.remove(owner));
    }

    /// What is to be ended, the first time.
    pub fn close(&self) -> Live {
        locked(&self.live).take().unwrap_or_default()
    }
}

/// The attempts of one acquisition.
pub(crate) struct Trial {
    pub wait: Wait,
    began: Instant,
    pause: Pause,
    cause: Option<RedisError>,
    is_warned: bool,
}

impl Trial {
    pub fn new(wait: Wait) -> Self {
        Self { wait, began: Instant::now(), pause: Pause::new(), cause: None, is_warned: false }
    }

    /// How long attempts are made. Until a connection has succeeded once, the address is probably wrong.
    fn until(&self, shared: &Shared) -> Option<Instant> {
        let end = self.wait.end();
        if shared.connected.load(Ordering::Relaxed) {
            return end;
        }
        let first = self.began + shared.connect_timeout;
        Some(end.map_or(first, |end| end.min(first)))
    }

    /// How long it may take to connect.
    pub fn connect_within(&self, shared: &Shared) -> Duration {
        let left = self.until(shared).map(|until| (until + LATE_REPLY).saturating_duration_since(Instant::now()));
        left.map_or(shared.connect_timeout, |left| left.min(shared.connect_timeout)).max(Duration::from_millis(1))
    }

    pub fn next_call(&self, shared: &Shared, spec: &Spec) -> Call {
        self.wait.next_call(shared.max_block, spec.kind == Kind::Fair)
    }

    /// There was a reply: null. Whether the wait goes on.
    pub fn goes_on(&mut self) -> bool {
        (self.pause, self.cause, self.is_warned) = (Pause::new(), None, false);
        !self.wait.has_timed_out()
    }

    /// An attempt that took this time failed, and can be repeated: after which pause, or `None` if there is no time
    /// left.
    pub fn failed(
        &mut self,
        shared: &Shared,
        spec: &Spec,
        nodes: &Nodes,
        error: RedisError,
        took: Duration,
    ) -> Option<Duration> {
        let lasted = took >= Duration::from_secs(1) && shared.connected.load(Ordering::Relaxed);
        if lasted && !error.is_connection_refusal() {
            self.is_warned = false; // a connection that lasts ends an outage, and this is the next one
        }
        let pause = self.pause.next(self.until(shared));
        let warns = pause.is_some() && error.code().is_none() && shared.connected.load(Ordering::Relaxed);
        if warns && !std::mem::replace(&mut self.is_warned, true) {
            log::warn!("{spec}: no connection to {} ({error}); the wait goes on", nodes.address(spec.key()));
        }
        self.cause = Some(error);
        pause
    }

    /// Whether no time is left, after a pause.
    pub fn is_over(&self, shared: &Shared) -> bool {
        self.until(shared).is_some_and(|until| Instant::now() >= until)
    }

    /// The error in the end, and how long to ask for the holders, if their names are missing in it.
    pub fn over(self, spec: &Spec, nodes: &Nodes) -> (Error, Option<Duration>) {
        let timed_out = self.wait.has_timed_out() && !self.wait.only_tries();
        let late = LATE - LATE / 10;
        let by = if timed_out { self.wait.end().map(|end| end + late) } else { None };
        let by = by.unwrap_or_else(|| Instant::now() + late);
        match self.cause {
            Some(error) if !timed_out => (spec.error(error, nodes), None),
            cause => {
                let asks = cause.is_none().then(|| by.saturating_duration_since(Instant::now()));
                let waited = if self.wait.only_tries() { Duration::ZERO } else { self.wait.time() };
                let lock = spec.to_string();
                (Error::NotAcquired(Box::new(NotAcquired { lock, waited, holders: Vec::new(), cause })), asks)
            }
        }
    }
}

/// Adds the names of the holders, from the reply of `LOCK.INFO`.
pub(crate) fn held_by(mut error: Error, info: &Value) -> Error {
    if let Error::NotAcquired(error) = &mut error {
        let holders = field(info, "holders").and_then(Value::as_sequence).unwrap_or_default();
        for owner in holders.iter().filter_map(|holder| field(holder, "owner")) {
            let owner: String = redis::from_redis_value_ref(owner).unwrap_or_default();
            if !error.holders.contains(&owner) {
                error.holders.push(owner);
            }
        }
    }
    error
}

/// A field of a map, which RESP2 sends as an array.
fn field<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    let is = |key: &Value| redis::from_redis_value_ref::<String>(key).is_ok_and(|key| key == name);
    match value {
        Value::Map(fields) => fields.iter().find(|(key, _)| is(key)).map(|(_, value)| value),
        Value::Array(items) => items.chunks_exact(2).find(|pair| is(&pair[0])).map(|pair| &pair[1]),
        _ => None,
    }
}
