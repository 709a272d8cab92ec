//! Acquisition: one blocking call after the other, until the lock is granted or the request is given up.

use std::sync::{mpsc, Arc};
use std::thread;
use std::time::{Duration, Instant};

use super::pool::Line;
use super::{Core, Guard, Lock};
use crate::hold::{Hold, OnLost};
use crate::spec::{new_owner, Kind, Spec};
use crate::trial::{held_by, Trial};
use crate::util::{judge, Pause, Verdict, Wait, LATE, LATER, LATE_REPLY, PATIENCE, SHORT};
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
            owner: new_owner(),
            on_lost: lock.on_lost.clone(),
            cancel: lock.cancel.clone(),
            unsure: false,
        }
    }

    /// Repeats the request until it ends. After an error, nothing of it is left on the server, or soon.
    pub fn run(mut self, wait: Wait) -> Result<Guard> {
        self.core.shared.begin(&self.owner, &self.spec)?;
        let result = self.attempts(Trial::new(wait));
        self.core.shared.end(&self.owner);
        match result {
            Ok((granted, sent, line)) => self.granted(granted, sent, line),
            Err(error) => {
                if self.unsure {
                    give_up(&self.core, self.spec, self.owner, wait);
                }
                Err(error)
            }
        }
    }

    /// The reply, when its request was sent, and its connection.
    fn attempts(&mut self, mut trial: Trial) -> Result<(i64, Instant, Option<Line>)> {
        let (core, spec) = (self.core.clone(), self.spec.clone());
        let (shared, pool) = (&core.shared, &core.pool);
        loop {
            if self.is_cancelled() {
                self.unsure = true;
                return Err(Error::Cancelled);
            }
            if shared.is_closed() {
                self.unsure = true;
                return Err(Error::Closed { lock: spec.to_string() });
            }
            let sent = Instant::now();
            let call = trial.next_call(shared, &spec);
            let answer = pool.call(spec.key(), trial.connect_within(shared), call.block.is_some(), &|| {
                let call = trial.next_call(shared, &spec);
                (spec.acquire(&self.owner, call.block), call.listen + spec.replicas_time())
            });
            match judge(answer.reply) {
                Verdict::Done(granted) => return Ok((granted, sent, answer.line)),
                Verdict::Never(error) => return Err(spec.error(error, &pool.nodes)),
                Verdict::Null => {
                    answer.line.into_iter().for_each(|line| pool.keep(line));
                    if !trial.goes_on() && !shared.is_closed() && !self.is_cancelled() {
                        return Err(self.over(trial));
                    }
                }
                // Its connection was closed to end the blocking call, and its place in the queue is reserved.
                Verdict::Again(error) if call.is_cut && answer.unsure && error.is_timeout() => self.unsure = true,
                Verdict::Again(error) => {
                    self.unsure |= answer.unsure;
                    match trial.failed(shared, &spec, &pool.nodes, error, sent.elapsed()) {
                        Some(pause) => thread::sleep(pause),
                        None => return Err(self.over(trial)),
                    }
                    if trial.is_over(shared) {
                        return Err(self.over(trial));
                    }
                }
            }
        }
    }

    /// The error in the end, with the names of the holders if there is time to ask for them.
    fn over(&self, trial: Trial) -> Error {
        let (mut error, asks) = trial.over(&self.spec, &self.core.pool.nodes);
        let Some(listen) = asks.filter(|listen| !listen.is_zero()) else { return error };
        for key in &self.spec.keys {
            if let Ok(info) = self.core.pool.short(key, &Spec::info(key), listen).reply {
                error = held_by(error, &info);
            }
            if matches!(&error, Error::NotAcquired(known) if !known.holders.is_empty()) {
                break;
            }
        }
        error
    }

    fn is_cancelled(&self) -> bool {
        self.cancel.as_ref().is_some_and(super::Cancel::is_cancelled)
    }

    fn granted(self, granted: i64, sent: Instant, line: Option<Line>) -> Result<Guard> {
        let hold = Arc::new(Hold::new(self.spec, self.owner, granted, self.unsure, self.on_lost));
        let is_open = self.core.shared.add(&hold);
        let guard = Guard::new(self.core, hold, sent, line);
        if is_open {
            return Ok(guard);
        }
        Err(guard.closed())
    }
}

/// Cancels a request on the server: here for as long as an acquisition may be late, and then in the background.
fn give_up(core: &Arc<Core>, spec: Arc<Spec>, owner: String, wait: Wait) {
    let later = (spec.clone(), owner.clone());
    let lease = spec.lease.max(PATIENCE);
    let here = match wait.end() {
        Some(end) if wait.has_timed_out() => (end + LATE - LATE / 10).saturating_duration_since(Instant::now()),
        _ => LATE_REPLY,
    };
    core.persist(here, lease, move |core| core.clear(&spec, &owner));
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

    /// Repeats `step` on a thread until it returns true, for `all` at most. Waits for `here` until then.
    pub(super) fn persist(
        self: &Arc<Self>,
        here: Duration,
        all: Duration,
        mut step: impl FnMut(&Arc<Core>) -> bool + Send + 'static,
    ) {
        let end = Instant::now() + all;
        let core = self.clone();
        let (done, ended) = mpsc::channel();
        self.queue.begin();
        thread::spawn(move || {
            repeat(&core, end, &mut step);
            core.queue.end();
            let _ = done.send(());
        });
        let _ = ended.recv_timeout(here);
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
