//! A lock that is held.

use std::future::{pending, poll_fn, Future};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use redis::{Cmd, FromRedisValue};
use tokio::sync::watch;
use tokio::time::sleep;

use super::keep::Watch;
use super::pool::Pooled;
use super::Core;
use crate::combined::worse;
use crate::hold::{Ended, Hold, OnLost, Renewing};
use crate::shared::SETTLING;
use crate::spec::Spec;
use crate::util::{is_not_held, judge, left, Pause, Verdict, REQUEST, SHORT};
use crate::{Error, Result};

/// A lock that is held and renewed until the guard is released or dropped.
///
/// Dropping the guard releases the lock in a task, which repeats the command until the server has replied or the lease
/// has expired; at the end of the runtime a blocking command does, within a second for all guards together. Then neither
/// an error nor a loss is reported, so that an early return by `?` keeps its own error.
#[must_use = "a guard that is dropped at once holds nothing"]
pub struct Guard {
    /// In the order of their acquisition; at least one until the guard ends.
    pub(super) held: Vec<Held>,
}

impl Guard {
    /// Completes when the lock, or one of several, is lost, and never if it is released. From the first call on, the
    /// server notifies the client of it.
    pub fn lost(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut lost: Vec<_> = self.held.iter().map(|one| Box::pin(one.lost())).collect();
        poll_fn(move |context| match lost.iter_mut().any(|one| one.as_mut().poll(context).is_ready()) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
    }

    /// Releases the lock, or all of several. While the server cannot be reached this is repeated, for as long as the lease
    /// lasts. If this future is dropped, for example by a timeout, a task continues the release.
    ///
    /// # Errors
    ///
    /// [`NotHeld`](Error::NotHeld) if the lock was lost before, [`Connection`](Error::Connection) if the server could
    /// not be reached until the lease expired, [`Refused`](Error::Refused).
    pub async fn release(mut self) -> Result<()> {
        // All at once, so that none is held, and renewed, while the server of another one does not respond.
        let releases = std::iter::from_fn(|| self.held.pop()).map(|one| Box::pin(one.release()));
        let (mut releases, mut result) = (releases.collect::<Vec<_>>(), Ok(()));
        poll_fn(|context| {
            releases.retain_mut(|one| match one.as_mut().poll(context) {
                Poll::Ready(released) => {
                    result = worse(std::mem::replace(&mut result, Ok(())), released);
                    false
                }
                Poll::Pending => true,
            });
            if releases.is_empty() {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
        result
    }
}

/// One lock of a [`Guard`].
pub struct Held {
    core: Arc<Core>,
    hold: Arc<Hold>,
    lost: Arc<watch::Sender<bool>>,
    is_watched: AtomicBool,
    /// A release that has not ended.
    releasing: Option<Releasing>,
}

impl Held {
    /// `granted`: the reply, and when its request was sent; `pooled`: its connection. If the factory has been closed,
    /// the result is dropped at once.
    pub(super) fn new(
        core: Arc<Core>,
        spec: Arc<Spec>,
        owner: String,
        granted: (i64, Instant),
        unsure: bool,
        on_lost: Option<OnLost>,
        pooled: Option<Pooled>,
    ) -> Result<Self> {
        let lost = Arc::new(watch::Sender::new(false));
        let hold = Arc::new(Hold::new(spec, owner, granted, unsure, Some(reporting(lost.clone(), on_lost))));
        let is_open = core.shared.add(&hold);
        hold.job.get_or_init(|| core.keeper.keep(&core, hold.clone()));
        let guard = Self { core, hold, lost, is_watched: false.into(), releasing: None };
        let spec = &guard.hold.spec;
        if !is_open {
            return Err(spec.closed());
        }
        if spec.session {
            guard.watch(0, pooled);
        } else {
            pooled.into_iter().for_each(Pooled::keep);
        }
        if spec.watch {
            guard.watch_all();
        }
        Ok(guard)
    }

    fn lost(&self) -> impl Future<Output = ()> + Send + 'static {
        self.watch_all();
        let mut lost = self.lost.subscribe();
        async move {
            if lost.wait_for(|lost| *lost).await.is_err() {
                pending::<()>().await;
            }
        }
    }

    async fn release(mut self) -> Result<()> {
        let releasing = self.releasing.insert(Releasing::new(&self.core, &self.hold));
        let (ended, end) = (releasing.ended, Instant::now() + self.hold.left());
        let result = releasing.run(end).await.unwrap_or_else(Err);
        self.releasing = None;
        ended.result(&self.hold.spec, result)
    }

    /// Releases it in a task.
    fn give_back(self) {
        drop(self);
    }

    /// Its lease has changed.
    fn reschedule(&self) {
        self.hold.job.get().into_iter().for_each(|&job| self.core.keeper.reschedule(job, &self.hold));
    }

    fn watch_all(&self) {
        if !self.is_watched.swap(true, Ordering::Relaxed) {
            // A session's first key is watched already.
            (usize::from(self.hold.spec.session)..self.hold.spec.keys.len()).for_each(|key| self.watch(key, None));
        }
    }

    fn watch(&self, key: usize, pooled: Option<Pooled>) {
        let watch =
            Watch { core: self.core.clone(), hold: self.hold.clone(), key, pooled, last: None, is_refused: false };
        self.core.runtime.spawn(watch.run());
    }
}

/// The function that is called on a loss: it completes the futures, and calls the user's callback.
pub(super) fn reporting(lost: Arc<watch::Sender<bool>>, on_lost: Option<OnLost>) -> OnLost {
    Arc::new(move || {
        lost.send_replace(true);
        on_lost.iter().for_each(|call| call());
    })
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut releasing = self.releasing.take().unwrap_or_else(|| Releasing::new(&self.core, &self.hold));
        releasing.repeated = true; // a release whose future was dropped may have been sent
        releasing.begin();
        self.hold.job.get().into_iter().for_each(|&job| self.core.keeper.leave(job));
    }
}

crate::hold::accessors!();
crate::both::release!([async] [.await]);

impl Releasing {
    /// Releases in a task, unless it was released before.
    pub fn begin(mut self) {
        if self.ended.is_before() {
            return;
        }
        let (core, hold) = (self.core.clone(), self.hold.clone());
        let last = vec![hold.spec.release(&hold.owner)];
        let end = Instant::now() + hold.left();
        core.clearing(async move { drop(self.run(end).await) }, last, &hold.spec);
    }
}
