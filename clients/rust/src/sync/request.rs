//! Acquisition: one blocking call after the other, until the lock is granted or the request is given up.

use std::sync::{mpsc, Arc};
use std::thread;
use std::time::Instant;

use super::pool::Pooled;
use super::{Core, Guard, Lock};
use crate::hold::{Hold, OnLost};
use crate::shared::Waiting;
use crate::spec::{new_owner, Kind, Spec};
use crate::trial::Trial;
use crate::util::{judge, left, Pause, Sent, Verdict, Wait, CANCELLING, LATE, LATE_REPLY, SHORT};
use crate::{Error, Result};

/// One owner's request for a lock.
pub(super) struct Request {
    core: Arc<Core>,
    pub spec: Arc<Spec>,
    pub owner: String,
    on_lost: Option<OnLost>,
    /// Whether a request was sent whose result is not known.
    unsure: bool,
}

impl Request {
    pub fn new(lock: &Lock) -> Self {
        Self {
            core: lock.core.clone(),
            spec: Arc::new(lock.spec.clone()),
            owner: new_owner(),
            on_lost: lock.on_lost.clone(),
            unsure: false,
        }
    }

    /// Begins it, before anything is sent.
    pub fn begin(&self) -> Result<Arc<Waiting>> {
        self.core.shared.begin(&self.owner, &self.spec)
    }

    /// Repeats the request until it ends. After an error, nothing of it is left on the server, or soon.
    pub fn run(mut self, waiting: &Waiting, wait: Wait) -> Result<Guard> {
        let (core, owner) = (self.core.clone(), self.owner.clone());
        let result = match self.attempts(waiting, Trial::new(wait)) {
            Ok((granted, sent, pooled)) => self.granted((granted, sent), pooled),
            Err(error) => {
                if self.unsure {
                    give_up(&self.core, self.spec, self.owner, wait);
                }
                Err(error)
            }
        };
        core.shared.end(&owner);
        result
    }

    /// The reply, when its request was sent, and its connection.
    fn attempts(&mut self, waiting: &Waiting, mut trial: Trial) -> Result<(i64, Instant, Option<Pooled>)> {
        let (core, spec) = (self.core.clone(), self.spec.clone());
        let (shared, pool) = (&core.shared, &core.pool);
        loop {
            if let Some(error) = self.ended(waiting) {
                return Err(error);
            }
            let began = Instant::now();
            let call = trial.next_call(shared, &spec);
            let tries = call.block.is_none() && !spec.session;
            let answer = pool.call(spec.key(), trial.connect_by(shared), tries, &|| {
                shared.sends(waiting)?;
                let call = trial.next_call(shared, &spec);
                let (command, by) = (spec.acquire(&self.owner, call.block), call.by + spec.replicas_time());
                Ok(Sent { command, by, is_long: call.is_long })
            });
            match judge(answer.reply) {
                Verdict::Done(granted) => return Ok((granted, began, answer.pooled)),
                _ if self.ended(waiting).is_some() => self.unsure |= waiting.is_sent(),
                Verdict::Never(error) => return Err(spec.error(error, &pool.nodes)),
                Verdict::Null => {
                    answer.pooled.into_iter().for_each(Pooled::keep);
                    if !trial.continues(call.block, began.elapsed()) {
                        return Err(self.ended(waiting).unwrap_or_else(|| core.failed(trial, &spec)));
                    }
                }
                // Its connection was closed to end the blocking call, and its place in the queue is reserved.
                Verdict::Again(error) if call.is_cut && answer.unsure && error.is_timeout() => self.unsure = true,
                Verdict::Again(error) => {
                    self.unsure |= answer.unsure;
                    match trial.failed(shared, &spec, &pool.nodes, error, began.elapsed()) {
                        Some(pause) => thread::sleep(pause),
                        None => return Err(core.failed(trial, &spec)),
                    }
                    if trial.has_ended(shared) {
                        return Err(core.failed(trial, &spec));
                    }
                }
            }
        }
    }

    /// Why it must not be continued.
    fn ended(&self, waiting: &Waiting) -> Option<Error> {
        let lock = || self.spec.to_string();
        if waiting.is_given_up() {
            return Some(Error::Cancelled { lock: lock() });
        }
        self.core.shared.is_closed().then(|| Error::Closed { lock: lock() })
    }

    fn granted(self, granted: (i64, Instant), pooled: Option<Pooled>) -> Result<Guard> {
        let hold = Arc::new(Hold::new(self.spec, self.owner, granted, self.unsure, self.on_lost));
        let is_open = self.core.shared.add(&hold);
        let guard = Guard::new(self.core, hold, pooled);
        if is_open {
            return Ok(guard);
        }
        Err(guard.closed())
    }
}

/// Cancels a request on the server: here for as long as an acquisition may be late, and then in the background.
fn give_up(core: &Arc<Core>, spec: Arc<Spec>, owner: String, wait: Wait) {
    let end = Instant::now() + spec.lease.max(CANCELLING);
    let here = match wait.end() {
        Some(end) if wait.has_timed_out() => end + LATE - LATE / 10,
        _ => Instant::now() + LATE_REPLY,
    };
    let (ended, waits) = mpsc::channel();
    let later = (spec.clone(), owner.clone());
    let key = spec.clone();
    core.persist(key.key(), end, move |core| {
        let is_cleared = core.clear(&spec, &owner);
        is_cleared.then(|| ended.send(()));
        is_cleared
    });
    let _ = waits.recv_timeout(left(here));
    core.clear_later(later.0, later.1);
}

impl Core {
    /// Ends a wait, or releases the hold. Returns whether the server has replied.
    pub(super) fn clear(&self, spec: &Spec, owner: &str) -> bool {
        let by = Instant::now() + SHORT;
        let reply = self.pool.short(spec.key(), &spec.cancel(owner), by).reply;
        let reply = match judge(reply) {
            Verdict::Done(0) if spec.kind == Kind::Multi => self.pool.short(spec.key(), &spec.release(owner), by).reply,
            Verdict::Again(_) => return false,
            _ => return true,
        };
        !matches!(judge(reply), Verdict::Again(_))
    }
}

/// Repeats `step` here until it returns true. Returns false if it has not until `end`.
pub(super) fn repeat(core: &Arc<Core>, end: Instant, step: &mut impl FnMut(&Arc<Core>) -> bool) -> bool {
    let mut pause = Pause::new();
    while !step(core) {
        match pause.next(Some(end)) {
            Some(pause) => thread::sleep(pause),
            None => return false,
        }
    }
    true
}
