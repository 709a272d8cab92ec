//! A lock that is held.

use std::future::{pending, Future};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Instant;

use redis::RedisResult;
use tokio::sync::watch;
use tokio::time::sleep;

use super::keep::Watch;
use super::pool::Pooled;
use super::Core;
use crate::agenda::Id;
use crate::hold::{Ended, Hold, OnLost};
use crate::spec::Spec;
use crate::util::{is_not_held, judge_release, Pause, SHORT};
use crate::Result;

/// A lock that is held and renewed until the guard is released or dropped.
///
/// Dropping the guard releases the lock in a task, which repeats the command until the server has replied or the lease
/// has expired; at the end of the runtime a blocking command does, within a second for all guards together. Then neither
/// an error nor a loss is reported, so that an early return by `?` keeps its own error.
#[must_use = "a guard that is dropped at once holds nothing"]
pub struct Guard {
    core: Arc<Core>,
    hold: Arc<Hold>,
    lost: Arc<watch::Sender<bool>>,
    job: Id,
    is_watched: AtomicBool,
    /// A release that has not ended.
    releasing: Option<Releasing>,
}

impl Guard {
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
        let due = hold.first_renewal().unwrap_or_else(|| hold.until());
        let job = core.keeper.keep(&core, due, hold.clone());
        let guard = Self { core, hold, lost, job, is_watched: false.into(), releasing: None };
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

    /// Completes when the lock is lost, and never if it is released. From the first call on, the
    /// server notifies the client of it.
    pub fn lost(&self) -> impl Future<Output = ()> + Send + 'static {
        self.watch_all();
        let mut lost = self.lost.subscribe();
        async move {
            if lost.wait_for(|lost| *lost).await.is_err() {
                pending::<()>().await;
            }
        }
    }

    /// Releases the lock. While the server cannot be reached this is repeated, for as long as the lease lasts.
    /// If this future is dropped, for example by a timeout, a task continues the release.
    ///
    /// # Errors
    ///
    /// [`NotHeld`](Error::NotHeld) if the lock was lost before, [`Connection`](Error::Connection) if the server could
    /// not be reached until the lease expired, [`Refused`](Error::Refused).
    pub async fn release(mut self) -> Result<()> {
        let releasing = self.releasing.insert(Releasing::new(self.core.clone(), self.hold.clone()));
        let ended = releasing.ended;
        let result = if ended == Ended::Before { Ok(()) } else { releasing.run().await };
        self.releasing = None;
        ended.result(&self.hold.spec, result)
    }

    fn watch_all(&self) {
        if !self.is_watched.swap(true, Ordering::Relaxed) {
            // A session's first key is watched already.
            (usize::from(self.hold.spec.session)..self.hold.spec.keys.len()).for_each(|key| self.watch(key, None));
        }
    }

    fn watch(&self, key: usize, pooled: Option<Pooled>) {
        let watch = Watch { core: self.core.clone(), hold: self.hold.clone(), key, pooled, is_refused: false };
        self.core.runtime.spawn(watch.run());
    }
}

/// The function that is called on a loss: it completes the futures, and calls the user's callback.
fn reporting(lost: Arc<watch::Sender<bool>>, on_lost: Option<OnLost>) -> OnLost {
    Arc::new(move || {
        lost.send_replace(true);
        on_lost.iter().for_each(|call| call());
    })
}

impl Drop for Guard {
    fn drop(&mut self) {
        let releasing = match self.releasing.take() {
            // It may have been sent.
            Some(releasing) => Releasing { repeated: true, ..releasing },
            None => Releasing::new(self.core.clone(), self.hold.clone()),
        };
        releasing.begin();
        self.core.keeper.leave(self.job);
    }
}

crate::hold::accessors!();

/// A release that may have to be sent more than once.
pub(super) struct Releasing {
    core: Arc<Core>,
    hold: Arc<Hold>,
    /// If it was lost before, NOTHELD does not mean that an earlier release was executed.
    ended: Ended,
    /// Whether an earlier release may have been executed.
    repeated: bool,
}

impl Releasing {
    /// From now on there are no renewals, and no loss is reported.
    pub fn new(core: Arc<Core>, hold: Arc<Hold>) -> Self {
        let ended = hold.end();
        Self { core, hold, ended, repeated: false }
    }

    /// Releases in a task, unless it was released before.
    pub fn begin(mut self) {
        if self.ended == Ended::Before {
            return;
        }
        let (core, spec) = (self.core.clone(), self.hold.spec.clone());
        let last = vec![spec.release(&self.hold.owner)];
        core.clearing(async move { drop(self.run().await) }, last, &spec);
    }

    async fn run(&mut self) -> Result<()> {
        let end = Instant::now() + self.hold.left();
        let mut pause = Pause::new();
        loop {
            let (spec, nodes) = (self.hold.spec.clone(), &self.core.clone().pool.nodes);
            match self.step().await {
                Ok(answered) => {
                    self.core.shared.remove(&self.hold.owner);
                    return answered.map_err(|error| spec.error(error, nodes));
                }
                Err(error) => match pause.next(Some(end)) {
                    Some(pause) => sleep(pause).await,
                    None => {
                        self.core.shared.remove(&self.hold.owner);
                        return Err(spec.error(error, nodes));
                    }
                },
            }
        }
    }

    /// Sends the command. `Err` if there was no reply.
    async fn step(&mut self) -> RedisResult<RedisResult<()>> {
        let (spec, owner, pool) = (&self.hold.spec, &self.hold.owner, &self.core.pool);
        let by = || Instant::now() + SHORT;
        let answer = pool.short(spec.key(), &spec.release(owner), by()).await;
        self.repeated |= answer.unsure;
        let repeated = self.repeated && self.ended == Ended::Held && !self.hold.is_expired();
        let answered = judge_release(answer.reply, repeated)?;
        if answered.as_ref().is_err_and(is_not_held) {
            // One key of a multi-key lock was lost: the others are released one by one.
            for command in spec.release_each(owner) {
                pool.short(spec.key(), &command, by()).await;
            }
        }
        if self.hold.unsure {
            self.core.clear_later(spec.clone(), owner.clone());
        }
        Ok(answered)
    }
}
