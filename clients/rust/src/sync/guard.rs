//! A lock that is held.

use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use redis::{Cmd, FromRedisValue};

use super::pool::Pooled;
use super::{watch, Core};
use crate::combined::worse;
use crate::hold::{Ended, Hold, Renewing};
use crate::shared::SETTLING;
use crate::util::{capped, is_not_held, judge, left, Pause, Verdict, REQUEST, SHORT};
use crate::{Error, Result};

/// A lock that is held and renewed until the guard is released or dropped.
///
/// Dropping the guard releases the lock: at once if the server replies within a second, otherwise in the
/// background until the lease expires. Then neither an error nor a loss is reported, so that an early return by `?`
/// keeps its own error.
#[must_use = "a guard that is dropped at once holds nothing"]
pub struct Guard {
    /// In the order of their acquisition; at least one until the guard ends.
    pub(super) held: Vec<Held>,
}

impl Guard {
    /// Releases the lock, or all of several. While the server cannot be reached this is repeated, for as long as the lease
    /// lasts.
    ///
    /// # Errors
    ///
    /// [`NotHeld`](Error::NotHeld) if the lock was lost before, [`Connection`](Error::Connection) if the server could
    /// not be reached until the lease expired, [`Refused`](Error::Refused).
    pub fn release(self) -> Result<()> {
        self.release_each(|one| one.hold.left())
    }

    /// The same, but returns [`Connection`](Error::Connection) after this time, about a second later at most. Then the
    /// release continues in the background.
    ///
    /// # Errors
    ///
    /// Those of [`release`](Guard::release).
    pub fn release_within(self, limit: Duration) -> Result<()> {
        let end = Instant::now() + capped(limit);
        self.release_each(|_| left(end))
    }

    /// Releases the last one first. What is not released at once is repeated after the others, so that none is held, and
    /// renewed, while the server of another one does not respond.
    fn release_each(mut self, limit: impl Fn(&Held) -> Duration) -> Result<()> {
        let (mut result, mut late) = (Ok(()), Vec::new());
        while let Some(one) = self.held.pop() {
            let end = Instant::now() + limit(&one);
            match one.release() {
                Ok(released) => result = worse(result, released),
                Err(failed) => late.push((failed, end)),
            }
        }
        for (failed, end) in late {
            let (mut releasing, error) = *failed;
            let (ended, hold) = (releasing.ended, releasing.hold.clone());
            let replied = if left(end).is_zero() { Err(error) } else { releasing.run(end) };
            let released = replied.unwrap_or_else(|error| {
                releasing.continues();
                Err(error)
            });
            result = worse(result, ended.result(&hold.spec, released));
        }
        result
    }
}

/// One lock of a [`Guard`].
pub struct Held {
    core: Arc<Core>,
    pub(super) hold: Arc<Hold>,
    has_ended: bool,
}

impl Held {
    pub(super) fn new(core: Arc<Core>, hold: Arc<Hold>, mut pooled: Option<Pooled>) -> Self {
        let spec = &hold.spec;
        if hold.next_renewal().is_some() || spec.session || spec.watch {
            hold.job.get_or_init(|| core.queue.keep(&core, hold.clone()));
        }
        if !spec.session {
            pooled.take().into_iter().for_each(Pooled::keep);
        }
        if spec.session || spec.watch {
            watch::start(&core, &hold, pooled);
        }
        Self { core, hold, has_ended: false }
    }

    /// Another guard of a hold.
    pub(super) fn again(core: &Arc<Core>, hold: &Arc<Hold>) -> Self {
        Self { core: core.clone(), hold: hold.clone(), has_ended: false }
    }

    /// Sends the release once; `Err` if it is to be repeated.
    fn release(mut self) -> std::result::Result<Result<()>, Box<(Releasing, Error)>> {
        self.has_ended = true;
        if let Some(result) = self.hold.leave() {
            return Ok(result);
        }
        let mut releasing = Releasing::new(&self.core, &self.hold);
        self.drop_job();
        match releasing.run(Instant::now()) {
            Ok(replied) => Ok(releasing.ended.result(&self.hold.spec, replied)),
            Err(error) => Err(Box::new((releasing, error))),
        }
    }

    /// Releases it in the background.
    fn give_back(mut self) {
        self.has_ended = true;
        if self.hold.leave().is_none() {
            Releasing::new(&self.core, &self.hold).continues();
            self.drop_job();
        }
    }

    /// Its lease has changed.
    fn reschedule(&self) {
        self.hold.job.get().into_iter().for_each(|&job| self.core.queue.reschedule(job, &self.hold));
    }

    fn drop_job(&self) {
        self.hold.job.get().into_iter().for_each(|&job| self.core.queue.drop_job(job));
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.has_ended || self.hold.leave().is_some() {
            return;
        }
        let mut releasing = Releasing::new(&self.core, &self.hold);
        // Here, because the program may be about to end.
        if releasing.run(Instant::now()).is_err() {
            releasing.continues();
        }
        self.drop_job();
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
