//! A lock that is held.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::pool::Line;
use super::Core;
use crate::agenda::Id;
use crate::hold::Hold;
use crate::util::{judge_release, SHORT};
use crate::{Error, Result};

/// A lock that is held, and renewed, until this is released or dropped.
///
/// Dropping it releases the lock as well as it can: in place if the server answers within about two seconds, else in
/// the background until the lease is over. An error is not seen then, and a lock that was lost neither; so the error of
/// who returns early by `?` is not masked.
#[must_use = "a guard that is dropped at once holds nothing"]
pub struct Guard {
    core: Arc<Core>,
    hold: Arc<Hold>,
    job: Option<Id>,
    is_released: bool,
}

impl Guard {
    /// `sent` is when the request was sent that was granted.
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

    /// The owner's name, a random one.
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

    /// How many permits of a semaphore it has; 1 of any lock.
    pub fn permits(&self) -> u32 {
        self.hold.spec.permits
    }

    /// Whether the lock is known to be lost: by the server's word, or because no renewal was confirmed for a lease.
    pub fn is_lost(&self) -> bool {
        self.hold.is_lost()
    }

    /// Releases the lock. While the server is out of reach it is asked again, for as long as the lease lasts.
    ///
    /// # Errors
    ///
    /// [`NotHeld`](Error::NotHeld) if the lock was lost before, [`Connection`](Error::Connection) if the server was out
    /// of reach until the lease was over, [`Refused`](Error::Refused).
    pub fn release(mut self) -> Result<()> {
        let mut releasing = self.stop();
        let end = Instant::now() + self.hold.left();
        super::request::repeat(&self.core, end, &mut |core| releasing.step(core));
        // Who was told of the loss is not to be told that all was well, whatever the server still knew.
        releasing.last.and(if releasing.was_lost { Err(Error::NotHeld) } else { Ok(()) })
    }

    /// From now on it is not renewed, and nobody is told of its loss. Returns what releases it.
    fn stop(&mut self) -> Releasing {
        self.is_released = true;
        self.job.into_iter().for_each(|job| self.core.queue.drop_job(job));
        let was_lost = self.hold.end();
        Releasing { hold: self.hold.clone(), was_lost, repeated: false, last: Err(Error::NotHeld) }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.is_released {
            return;
        }
        let mut releasing = self.stop();
        self.core.persist(Duration::ZERO, self.hold.left(), move |core| releasing.step(core));
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("owner", &self.owner()).field("is_lost", &self.is_lost()).finish_non_exhaustive()
    }
}

/// A release that may have to be sent more than once.
struct Releasing {
    hold: Arc<Hold>,
    /// Whether it was lost before: then it was not an earlier one that released it.
    was_lost: bool,
    /// Whether an earlier one may have got through.
    repeated: bool,
    last: Result<()>,
}

impl Releasing {
    /// Sends it. Returns whether there was an answer.
    fn step(&mut self, core: &Arc<Core>) -> bool {
        let (spec, owner) = (&self.hold.spec, &self.hold.owner);
        let answer = core.pool.short(spec.key(), &spec.release(owner), SHORT);
        self.repeated |= answer.unsure;
        let repeated = self.repeated && !self.was_lost && !self.hold.is_expired();
        match judge_release(answer.said, repeated) {
            Err(error) => {
                self.last = Err(error.into());
                false
            }
            Ok(answered) => {
                if matches!(answered, Err(Error::NotHeld)) {
                    // One of several locks was lost; nothing of the others is to be left.
                    for command in spec.release_each(owner) {
                        core.pool.short(spec.key(), &command, SHORT);
                    }
                }
                if self.hold.unsure {
                    core.clear_later(spec.clone(), owner.clone());
                }
                self.last = answered;
                true
            }
        }
    }
}
