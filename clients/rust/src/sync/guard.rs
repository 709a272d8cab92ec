//! A lock that is held.

use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::pool::Pooled;
use super::{watch, Core};
use crate::agenda::Id;
use crate::hold::{Ended, Hold};
use crate::util::{capped, is_not_held, judge, Pause, Verdict, SHORT};
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
        let mut releasing = Releasing::new(&self.core, &self.hold);
        let (ended, end) = (releasing.ended, Instant::now() + capped(limit));
        let result = releasing.run(end).unwrap_or_else(|error| {
            releasing.continues();
            Err(error)
        });
        ended.result(&self.hold.spec, result)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let mut releasing = Releasing::new(&self.core, &self.hold);
        // Here, because the program may be about to end.
        if releasing.run(Instant::now()).is_err() {
            releasing.continues();
        }
        self.job.into_iter().for_each(|job| self.core.queue.drop_job(job));
    }
}

crate::hold::accessors!();
crate::both::release!([] []);

impl Releasing {
    /// Releases in the background, until the lease expires.
    pub fn continues(mut self) {
        let (core, hold) = (self.core.clone(), self.hold.clone());
        let step = move |_: &Arc<Core>| self.run(Instant::now()).is_ok();
        core.persist(hold.spec.key(), Instant::now() + hold.left(), step);
    }
}
