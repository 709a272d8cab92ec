//! A lock that is held.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::pool::Line;
use super::Core;
use crate::agenda::Id;
use crate::hold::{Ended, Hold};
use crate::spec::REPORTED;
use crate::util::{is_not_held, judge_release, SHORT};
use crate::{Error, Result};

/// A lock that is held and renewed until the guard is released or dropped.
///
/// Dropping the guard releases the lock: at once if the server replies within about two seconds, otherwise in the
/// background until the lease expires. Then neither an error nor a loss is reported, so that an early return by `?`
/// keeps its own error.
#[must_use = "a guard that is dropped at once holds nothing"]
pub struct Guard {
    core: Arc<Core>,
    hold: Arc<Hold>,
    job: Option<Id>,
    is_released: bool,
}

impl Guard {
    /// `sent` is when the granted request was sent.
    pub(super) fn new(core: Arc<Core>, hold: Arc<Hold>, sent: Instant, line: Option<Line>) -> Self {
        let spec = &hold.spec;
        let is_renewed = spec.renew && !spec.session;
        let due = if is_renewed { sent + spec.lease / 3 } else { hold.until() };
        let job = (is_renewed || spec.session || spec.watch).then(|| core.queue.keep(&core, due, hold.clone()));
        if spec.session {
            core.queue.watch(&core, &hold, line);
        } else {
            line.into_iter().for_each(|line| core.pool.keep(line));
            if spec.watch {
                core.queue.watch(&core, &hold, None);
            }
        }
        Self { core, hold, job, is_released: false }
    }

    /// The name of the owner, `host:pid:random`.
    pub fn owner(&self) -> &str {
        &self.hold.owner
    }

    /// The lock's key, or keys.
    pub fn keys(&self) -> &[Vec<u8>] {
        &self.hold.spec.keys
    }

    /// The fencing token, if the lock is [fenced](crate::Lock::fenced).
    pub fn token(&self) -> Option<u64> {
        self.hold.token
    }

    /// How many permits of a semaphore it holds; 1 for a lock.
    pub fn permits(&self) -> u32 {
        self.hold.spec.permits()
    }

    /// Whether the lock is known to be lost: the server reported it, or the hold was not confirmed for as long as its
    /// lease.
    pub fn is_lost(&self) -> bool {
        self.hold.is_lost()
    }

    /// Releases the lock. While the server cannot be reached this is repeated, for as long as the lease lasts.
    ///
    /// # Errors
    ///
    /// [`NotHeld`](Error::NotHeld) if the lock was lost before, [`Connection`](Error::Connection) if the server could
    /// not be reached until the lease expired, [`Refused`](Error::Refused).
    pub fn release(mut self) -> Result<()> {
        let mut releasing = self.stop();
        if releasing.ended != Ended::Before {
            let end = Instant::now() + self.hold.left();
            super::request::repeat(&self.core, end, &mut |core| releasing.step(core));
        }
        releasing.ended.result(&self.hold.spec, releasing.last)
    }

    /// Ends renewals, and reports no loss from now on. Returns what releases the lock.
    fn stop(&mut self) -> Releasing {
        self.is_released = true;
        self.job.into_iter().for_each(|job| self.core.queue.drop_job(job));
        Releasing::new(self.hold.clone())
    }

    /// Releases what was granted while the factory was closed.
    pub(super) fn closed(self) -> Error {
        Error::Closed { lock: self.hold.spec.to_string() }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.is_released {
            return;
        }
        let mut releasing = self.stop();
        // Here, because the program may be about to end.
        if releasing.ended != Ended::Before && !releasing.step(&self.core) {
            self.core.persist(Duration::ZERO, self.hold.left(), move |core| releasing.step(core));
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("owner", &self.owner()).field("is_lost", &self.is_lost()).finish_non_exhaustive()
    }
}

/// A release that may have to be sent more than once.
pub(super) struct Releasing {
    hold: Arc<Hold>,
    /// If it was lost before, NOTHELD does not mean that an earlier release was executed.
    ended: Ended,
    /// Whether an earlier release may have been executed.
    repeated: bool,
    last: Result<()>,
}

impl Releasing {
    /// From now on no loss is reported.
    pub fn new(hold: Arc<Hold>) -> Self {
        let (ended, last) = (hold.end(), Err(hold.spec.not_held(REPORTED)));
        Self { hold, ended, repeated: false, last }
    }

    /// Sends the command. Returns whether there was a reply.
    pub fn step(&mut self, core: &Arc<Core>) -> bool {
        let (spec, owner) = (&self.hold.spec, &self.hold.owner);
        core.shared.remove(owner);
        let answer = core.pool.short(spec.key(), &spec.release(owner), SHORT);
        self.repeated |= answer.unsure;
        let repeated = self.repeated && self.ended == Ended::Held && !self.hold.is_expired();
        match judge_release(answer.reply, repeated) {
            Err(error) => {
                self.last = Err(spec.error(error, &core.pool.nodes));
                false
            }
            Ok(answered) => {
                if answered.as_ref().is_err_and(is_not_held) {
                    // One key of a multi-key lock was lost: the others are released one by one.
                    for command in spec.release_each(owner) {
                        core.pool.short(spec.key(), &command, SHORT);
                    }
                }
                if self.hold.unsure {
                    core.clear_later(spec.clone(), owner.clone());
                }
                self.last = answered.map_err(|error| spec.error(error, &core.pool.nodes));
                true
            }
        }
    }
}
