//! Acquisition: one blocking call after the other, until the lock is granted or the request is given up.

use std::sync::{mpsc, Arc};
use std::thread::sleep;
use std::time::Instant;

use super::pool::Pooled;
use super::{Core, Held, Lock};
use crate::hold::{Hold, OnLost};
use crate::shared::Waiting;
use crate::trial::Trial;
use crate::util::{judge, left, Verdict, Wait, CANCELLING};
use crate::{Error, Result};

/// What makes the result of a request that was granted: of the reply, when the request was sent, and its connection.
pub(super) type Granted<T> = fn(Request, (i64, Instant), Option<Pooled>) -> Result<T>;

/// One owner's request for a lock.
pub(super) struct Request {
    core: Arc<Core>,
    pub waiting: Arc<Waiting>,
    on_lost: Option<OnLost>,
    /// Whether a request was sent whose result is not known.
    unsure: bool,
}

impl Request {
    /// Begins it, before anything is sent.
    pub fn begin(lock: &Lock) -> Result<Self> {
        let waiting = lock.core.shared.begin(&lock.spec)?;
        Ok(Self { core: lock.core.clone(), waiting, on_lost: lock.on_lost.clone(), unsure: false })
    }

    /// Repeats the request until it ends. After an error, nothing of it is left on the server, or soon.
    pub fn run<T>(mut self, wait: Wait, granted: Granted<T>) -> Result<T> {
        let (core, waiting) = (self.core.clone(), self.waiting.clone());
        let result = match self.attempts(Trial::new(wait)) {
            Ok((reply, sent, pooled)) => granted(self, (reply, sent), pooled),
            Err(error) => {
                if self.unsure {
                    give_up(&core, &waiting, wait);
                }
                Err(error)
            }
        };
        core.shared.end(&waiting.owner);
        result
    }

    /// The reply, when its request was sent, and its connection.
    fn attempts(&mut self, mut trial: Trial) -> Result<(i64, Instant, Option<Pooled>)> {
        let (core, waiting) = (self.core.clone(), self.waiting.clone());
        let (shared, pool, spec) = (&core.shared, &core.pool, &waiting.spec);
        loop {
            if let Some(error) = self.ended() {
                return Err(error);
            }
            let began = Instant::now();
            let call = trial.wait.next_call(shared.max_block(spec), spec);
            let tries = call.block.is_none() && !spec.session;
            let answer = pool.call(spec.key(), trial.connect_by(shared), tries, &|| {
                shared.sends(&waiting)?;
                Ok(trial.wait.next_call(shared.max_block(spec), spec).sent(spec, &waiting.owner))
            });
            match judge(answer.reply) {
                Verdict::Done(granted) => return Ok((granted, began, answer.pooled)),
                _ if self.ended().is_some() => self.unsure |= waiting.is_sent(),
                Verdict::Never(error) => return Err(spec.error(error, &pool.nodes)),
                Verdict::Null => {
                    answer.pooled.into_iter().for_each(Pooled::keep);
                    if !trial.continues(spec, call.block, began.elapsed()) {
                        return Err(self.ended().unwrap_or_else(|| core.failed(trial, spec)));
                    }
                }
                // Its connection was closed to end the blocking call, and its place in the queue is reserved.
                Verdict::Again(error) if call.is_cut && answer.unsure && error.is_timeout() => self.unsure = true,
                Verdict::Again(error) => {
                    self.unsure |= answer.unsure;
                    match trial.failed(shared, spec, &pool.nodes, error, began.elapsed()) {
                        Some(pause) => sleep(pause),
                        None => return Err(core.failed(trial, spec)),
                    }
                    if trial.has_ended(shared) {
                        return Err(core.failed(trial, spec));
                    }
                }
            }
        }
    }

    /// Why it must not be continued.
    fn ended(&self) -> Option<Error> {
        if self.waiting.is_given_up() {
            return Some(Error::Cancelled { lock: self.waiting.spec.to_string() });
        }
        self.core.shared.is_closed().then(|| self.waiting.spec.closed())
    }

    /// A latch has opened.
    pub fn opened(self, _: (i64, Instant), pooled: Option<Pooled>) -> Result<()> {
        pooled.into_iter().for_each(Pooled::keep);
        Ok(())
    }

    /// A lock was granted.
    pub fn granted(self, granted: (i64, Instant), pooled: Option<Pooled>) -> Result<Held> {
        let (spec, owner) = (self.waiting.spec.clone(), self.waiting.owner.clone());
        let hold = Arc::new(Hold::new(spec, owner, granted, self.unsure, self.on_lost));
        let is_open = self.core.shared.add(&hold);
        let held = Held::new(self.core, hold, pooled);
        is_open.then_some(held).ok_or_else(|| self.waiting.spec.closed())
    }
}

/// Cancels a request on the server: here for as long as an acquisition may be late, and then in the background.
fn give_up(core: &Arc<Core>, waiting: &Arc<Waiting>, wait: Wait) {
    let end = Instant::now() + waiting.spec.lease.max(CANCELLING);
    let (ended, waits) = mpsc::channel();
    let given_up = waiting.clone();
    core.persist(waiting.spec.key(), end, move |core| {
        let is_cleared = core.clear(&given_up.spec, &given_up.owner).is_some();
        is_cleared.then(|| ended.send(()));
        is_cleared
    });
    let _ = waits.recv_timeout(left(wait.return_by()));
    core.clear_later(waiting.spec.clone(), waiting.owner.clone());
}
