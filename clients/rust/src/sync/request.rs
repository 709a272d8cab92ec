//! Acquisition: one blocking call after the other, until the lock is granted or the request is given up.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::pool::{Answer, Line};
use super::{Core, Guard, Lock};
use crate::hold::{Hold, OnLost};
use crate::spec::{Kind, Spec};
use crate::util::{in_the_end, judge, Call, Pause, Verdict, Wait, LATER, PATIENCE, SHORT};
use crate::{Error, Result};

/// One owner's request for a lock.
pub(super) struct Request {
    core: Arc<Core>,
    pub spec: Arc<Spec>,
    pub owner: String,
    on_lost: Option<OnLost>,
    cancel: Option<super::Cancel>,
    /// Whether a request was sent whose result is not known.
    unsure: bool,
}

impl Request {
    pub fn new(lock: &Lock) -> Self {
        Self {
            core: lock.core.clone(),
            spec: Arc::new(lock.spec.clone()),
            owner: Uuid::new_v4().to_string(),
            on_lost: lock.on_lost.clone(),
            cancel: lock.cancel.clone(),
            unsure: false,
        }
    }

    /// Repeats the request until it ends. After an error, nothing of it is left on the server, or soon.
    pub fn run(mut self, wait: Wait) -> Result<Guard> {
        let mut pause = Pause::new();
        loop {
            if self.is_cancelled() {
                self.unsure = true;
                return self.fail(Error::Cancelled);
            }
            let call = wait.next_call(self.core.max_block, self.spec.kind == Kind::Fair);
            let sent = Instant::now();
            let answer = self.ask(&call);
            match judge(answer.reply) {
                Verdict::Done(granted) => return Ok(self.granted(granted, sent, answer.line)),
                Verdict::Never(error) => return self.fail(error.into()),
                Verdict::Null => {
                    answer.line.into_iter().for_each(|line| self.core.pool.keep(line));
                    if wait.has_timed_out() {
                        return self.fail(Error::NotAcquired);
                    }
                    pause = Pause::new();
                }
                // Its connection was closed to end the blocking call, and its place in the queue is reserved.
                Verdict::Again(error) if call.is_cut && answer.unsure && error.is_timeout() => self.unsure = true,
                Verdict::Again(error) => {
                    self.unsure |= answer.unsure;
                    match pause.next(wait.end()) {
                        Some(pause) => thread::sleep(pause),
                        None => return self.fail(in_the_end(error)),
                    }
                }
            }
        }
    }

    fn ask(&self, call: &Call) -> Answer {
        let command = self.spec.acquire(&self.owner, call.block);
        self.core.pool.call(self.spec.key(), &command, call.listen + self.spec.replicas_time())
    }

    fn is_cancelled(&self) -> bool {
        self.cancel.as_ref().is_some_and(super::Cancel::is_cancelled)
    }

    fn granted(self, granted: i64, sent: Instant, line: Option<Line>) -> Guard {
        let hold = Hold::new(self.spec, self.owner, granted, self.unsure, self.on_lost);
        Guard::new(self.core, Arc::new(hold), sent, line)
    }

    fn fail(self, error: Error) -> Result<Guard> {
        if self.unsure {
            give_up(&self.core, self.spec, self.owner);
        }
        Err(error)
    }
}

/// Cancels a request on the server: here for a limited time, and then in the background.
fn give_up(core: &Arc<Core>, spec: Arc<Spec>, owner: String) {
    let later = (spec.clone(), owner.clone());
    let lease = spec.lease;
    core.persist(PATIENCE, lease, move |core| core.clear(&spec, &owner));
    core.clear_later(later.0, later.1);
}

impl Core {
    /// Ends a wait, or releases the hold. Returns whether the server has replied.
    pub(super) fn clear(&self, spec: &Spec, owner: &str) -> bool {
        let reply = self.pool.short(spec.key(), &spec.cancel(owner), SHORT).reply;
        let reply = match judge(reply) {
            Verdict::Done(0) if spec.kind == Kind::Multi => {
                self.pool.short(spec.key(), &spec.release(owner), SHORT).reply
            }
            Verdict::Again(_) => return false,
            _ => return true,
        };
        !matches!(judge(reply), Verdict::Again(_))
    }

    /// The same once more a little later, when a request that was delayed by the network has arrived.
    pub(super) fn clear_later(self: &Arc<Self>, spec: Arc<Spec>, owner: String) {
        self.queue.clear(self.clone(), Instant::now() + LATER, spec, owner);
    }

    /// Repeats `step` until it returns true: for `here` on this thread, then on a new one, and for `all` in total.
    pub(super) fn persist(
        self: &Arc<Self>,
        here: Duration,
        all: Duration,
        mut step: impl FnMut(&Arc<Core>) -> bool + Send + 'static,
    ) {
        let start = Instant::now();
        if repeat(self, start + here.min(all), &mut step) {
            return;
        }
        let core = self.clone();
        self.queue.begin();
        thread::spawn(move || {
            repeat(&core, start + all, &mut step);
            core.queue.end();
        });
    }
}

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
