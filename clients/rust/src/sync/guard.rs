//! A lock that is held.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::pool::Pooled;
use super::{watch, Core};
use crate::agenda::Id;
use crate::hold::{Ended, Hold};
use crate::shared::Shared;
use crate::spec::REPORTED;
use crate::util::{capped, is_not_held, judge_release, SHORT};
use crate::Result;

/// A lock that is held and renewed until the guard is released or dropped.
///
/// Dropping the guard releases the lock: at once if the server replies within a second, otherwise in the
/// background until the lease expires. Then neither an error nor a loss is reported, so that an early return by `?`
/// keeps its own error.
#[must_use = "a guard that is dropped at once holds nothing"]
pub struct Guard {
    core: Arc<Core>,
    hold: Arc<Hold>,
    job: Option<Id>,
}

impl Guard {
    pub(super) fn new(core: Arc<Core>, hold: Arc<Hold>, mut pooled: Option<Pooled>) -> Self {
        let spec = &hold.spec;
        let due = hold.first_renewal();
        let is_kept = due.is_some() || spec.session || spec.watch;
        let job = is_kept.then(|| core.queue.keep(&core, due.unwrap_or_else(|| hold.until()), hold.clone()));
        if !spec.session {
            pooled.take().into_iter().for_each(Pooled::keep);
        }
        if spec.session || spec.watch {
            watch::start(&core, &hold, pooled);
        }
        Self { core, hold, job }
    }

    /// Releases the lock. While the server cannot be reached this is repeated, for as long as the lease lasts.
    ///
    /// # Errors
    ///
    /// [`NotHeld`](Error::NotHeld) if the lock was lost before, [`Connection`](Error::Connection) if the server could
    /// not be reached until the lease expired, [`Refused`](Error::Refused).
    pub fn release(self) -> Result<()> {
        let left = self.hold.left();
        self.release_within(left)
    }

    /// The same, but returns [`Connection`](Error::Connection) after this time, about a second later at most. Then the
    /// release continues in the background.
    ///
    /// # Errors
    ///
    /// Those of [`release`](Guard::release).
    pub fn release_within(self, limit: Duration) -> Result<()> {
        let mut releasing = Releasing::new(&self.core, self.hold.clone());
        if releasing.ended == Ended::Before {
            return releasing.ended.result(&self.hold.spec, Ok(()));
        }
        let is_released =
            super::request::repeat(&self.core, Instant::now() + capped(limit), &mut |core| releasing.step(core));
        self.job.into_iter().for_each(|job| self.core.queue.drop_job(job));
        let (ended, last) = (releasing.ended, std::mem::replace(&mut releasing.last, Ok(())));
        if !is_released {
            releasing.continues(&self.core);
        }
        ended.result(&self.hold.spec, last)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let mut releasing = Releasing::new(&self.core, self.hold.clone());
        // Here, because the program may be about to end.
        if releasing.ended != Ended::Before && !releasing.step(&self.core) {
            releasing.continues(&self.core);
        }
        self.job.into_iter().for_each(|job| self.core.queue.drop_job(job));
    }
}

crate::hold::accessors!();

/// A release that may have to be sent more than once.
pub(super) struct Releasing {
    shared: Arc<Shared>,
    hold: Arc<Hold>,
    /// If it was lost before, NOTHELD does not mean that an earlier release was executed.
    ended: Ended,
    /// Whether an earlier release may have been executed.
    repeated: bool,
    last: Result<()>,
}

impl Releasing {
    /// From now on there are no renewals, and no loss is reported.
    pub fn new(core: &Core, hold: Arc<Hold>) -> Self {
        let (ended, last) = (hold.end(), Err(hold.spec.not_held(REPORTED)));
        Self { shared: core.shared.clone(), hold, ended, repeated: false, last }
    }

    /// Releases in the background, until the lease expires.
    pub fn continues(mut self, core: &Arc<Core>) {
        let (key, end) = (self.hold.spec.clone(), Instant::now() + self.hold.left());
        core.persist(key.key(), end, move |core| self.step(core));
    }

    /// Whether it was released before.
    pub fn is_needless(&self) -> bool {
        self.ended == Ended::Before
    }

    /// Sends the command. Returns whether there was a reply.
    pub fn step(&mut self, core: &Arc<Core>) -> bool {
        let (spec, owner) = (&self.hold.spec, &self.hold.owner);
        let by = || Instant::now() + SHORT;
        let answer = core.pool.short(spec.key(), &spec.release(owner), by());
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
                        core.pool.short(spec.key(), &command, by());
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

impl Drop for Releasing {
    fn drop(&mut self) {
        // It has ended, also if it was never executed.
        if self.ended != Ended::Before {
            self.shared.remove(&self.hold.owner);
        }
    }
}
