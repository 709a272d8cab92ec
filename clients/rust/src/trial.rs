//! What the attempts of an acquisition have in common in both flavours: how long each may take, what follows a failed
//! one, and the error in the end.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use redis::{RedisError, Value};

use crate::error::NotAcquired;
use crate::info::{Holder, LockInfo};
use crate::nodes::Nodes;
use crate::shared::Shared;
use crate::spec::{Kind, Spec};
#[cfg(feature = "sync")]
use crate::util::timed_out;
use crate::util::{is_busy, is_full, Pause, Wait, REPLY_TOLERANCE, TOLERANCE};
use crate::Error;

/// The attempts of one acquisition.
pub(crate) struct Trial {
    pub wait: Wait,
    pause: Pause,
    cause: Option<RedisError>,
    is_warned: bool,
}

impl Trial {
    pub fn new(wait: Wait) -> Self {
        Self { wait, pause: Pause::new(), cause: None, is_warned: false }
    }

    /// One whose last request has no reply in time.
    #[cfg(feature = "sync")]
    pub fn unanswered(wait: Wait) -> Self {
        Self { cause: Some(timed_out()), ..Self::new(wait) }
    }

    /// How long attempts are made. Until a connection has succeeded once, the address is probably wrong.
    fn until(&self, shared: &Shared) -> Option<Instant> {
        let end = self.wait.end();
        if shared.connected.load(Ordering::Relaxed) {
            return end;
        }
        let first = self.wait.began() + shared.connect_timeout;
        Some(end.map_or(first, |end| end.min(first)))
    }

    /// By when the next attempt must have a connection.
    pub fn connect_by(&self, shared: &Shared) -> Instant {
        let one = Instant::now() + shared.connect_timeout;
        self.until(shared).map_or(one, |until| one.min(until + REPLY_TOLERANCE))
    }

    /// A reply ends an outage.
    pub fn replied(&mut self) {
        (self.pause, self.cause, self.is_warned) = (Pause::new(), None, false);
    }

    /// The reply to a call that took this time was null. Whether the wait continues: `LOCK.CANCEL` ends it earlier than
    /// its `BLOCK`.
    pub fn continues(&mut self, spec: &Spec, block: Option<u64>, took: Duration) -> bool {
        self.replied();
        let is_complete = block.is_some_and(|block| block > 0 && took.as_millis() as u64 + 10 >= block);
        let is_complete = is_complete || spec.kind == Kind::Latch;
        is_complete && !self.wait.has_timed_out()
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
        let is_outage = error.code().is_none() && !is_busy(&error);
        if pause.is_some() && (is_outage || is_full(&error)) && !std::mem::replace(&mut self.is_warned, true) {
            log::warn!("{spec}: no connection to {} ({error}); the wait goes on", nodes.address(spec.key()));
        }
        self.cause = Some(error);
        pause
    }

    /// Whether no time is left, after a pause.
    pub fn has_ended(&self, shared: &Shared) -> bool {
        self.until(shared).is_some_and(|until| Instant::now() >= until)
    }

    /// The error in the end, and until when to request the names of the holders, if they are missing in it.
    pub fn error(self, spec: &Spec, nodes: &Nodes) -> (Error, Option<Instant>) {
        let is_late = self.wait.has_timed_out();
        match self.cause {
            Some(error) if !is_late || self.wait.only_tries() => (spec.error(error, nodes), None),
            cause => {
                let end = self.wait.end().filter(|_| is_late).unwrap_or_else(Instant::now);
                let by = (cause.is_none() && spec.kind != Kind::Latch).then(|| end + TOLERANCE - TOLERANCE / 10);
                let (lock, waited) = (spec.to_string(), self.wait.time());
                (Error::NotAcquired(Box::new(NotAcquired { lock, waited, holders: Vec::new(), cause })), by)
            }
        }
    }
}

/// Adds the names of the holders, from the reply of `LOCK.INFO`. Returns whether there are any.
pub(crate) fn held_by(error: &mut Error, info: &Value) -> bool {
    let Error::NotAcquired(error) = error else { return true };
    let mut found = LockInfo::default();
    found.add(&[], info);
    for Holder { owner, .. } in found.holders {
        if !error.holders.contains(&owner) {
            error.holders.push(owner);
        }
    }
    !error.holders.is_empty()
}
