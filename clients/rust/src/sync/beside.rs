//! What is not a lock: latches and delayed queues.

use std::convert::Infallible;
use std::fmt::Display;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use redis::{from_redis_value, Cmd, FromRedisValue, RedisResult, Value};

use super::pool::Pooled;
use super::request::Request;
use super::{cancel, Cancel, Core};
use crate::queue::{is_final, Consumer, Job, Looks, Pending, Taken, LOOK};
use crate::spec::shown;
use crate::trial::Trial;
use crate::util::{again, capped, in_ms, left, Pause, Sent, Wait, SHORT, SLACK};
use crate::{Error, Result};

/// A latch of such a factory.
pub type Latch = crate::Latch<Core>;

/// A delayed queue of such a factory.
pub type DelayedQueue = crate::DelayedQueue<Core>;

crate::latch::latch!([] []);
crate::queue::queue!([] []);

impl Latch {
    /// [`Cancel::cancel`] ends the waits for this latch.
    pub fn cancelled_by(mut self, cancel: &Cancel) -> Self {
        self.lock = self.lock.cancelled_by(cancel);
        self
    }

    /// Each wait has a thread of its own. No command ends such a wait on the server, so each of its calls is short.
    fn opened(&self, wait: Wait) -> Result<()> {
        let mut lock = self.lock.clone();
        lock.spec.max_block = SHORT;
        cancel::acquire(&lock, wait, Request::opened)
    }
}

impl DelayedQueue {
    /// [`Cancel::cancel`] ends the consumers of this queue.
    pub fn cancelled_by(mut self, cancel: &Cancel) -> Self {
        self.lock = self.lock.cancelled_by(cancel);
        self
    }

    /// Calls the handler with one element of the list after the other, as long as there are some and then whenever there
    /// is a new one. For several at a time, call this in several threads.
    ///
    /// No job is lost with the process that had it: a job whose handler has not returned after [`timeout`] is delivered
    /// again. So one can be done twice: if its handler takes longer, or if the process or the connection fails between the
    /// end of the handler and the server's notice of it. If the handler returns an error, the job is tried again later,
    /// [`max_tries`] times at most; then its value is in the list `{list}:failed`. A panic ends the consumer, and counts as
    /// a try.
    ///
    /// It ends only with an error, between two jobs, and within a second if there are none.
    ///
    /// # Errors
    ///
    /// [`InvalidOption`](Error::InvalidOption), [`Closed`](Error::Closed), [`Cancelled`](Error::Cancelled);
    /// [`Connection`](Error::Connection) if no connection ever succeeded; [`ModuleMissing`](Error::ModuleMissing),
    /// [`Refused`](Error::Refused), for example if the key is not a list.
    ///
    /// [`timeout`]: crate::DelayedQueue::timeout
    /// [`max_tries`]: crate::DelayedQueue::max_tries
    pub fn consume<E: Display>(
        &self,
        mut handler: impl FnMut(&Job) -> std::result::Result<(), E>,
    ) -> Result<Infallible> {
        let core = &self.lock.core;
        let mut running = self.running()?;
        let consumer = running.consumer.clone();
        loop {
            self.check_end()?;
            let Some(taken) = running.next()? else { continue };
            if let Err(error) = self.check_end() {
                let _ = core.claim(&consumer, &taken, consumer.give_back(&taken));
                return Err(error);
            }
            if let Some(taken) = core.begin_job(&consumer, taken)? {
                let error = handler(&taken.job()).err();
                core.end_job(&consumer, &taken, error.map(|error| error.to_string()))?;
            }
        }
    }

    /// Whether it goes on.
    fn check_end(&self) -> Result<()> {
        if self.lock.cancel.as_ref().is_some_and(Cancel::is_cancelled) {
            return Err(Error::Cancelled { lock: self.lock.spec.to_string() });
        }
        self.lock.core.shared.check(&self.lock.spec)
    }
}
