//! Acquisition: one blocking call after the other, until the lock is granted, or the request given up or its future
//! dropped.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::Value;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout, timeout_at};

use super::pool::{Answer, Pooled};
use super::{unless, Core, Held, Lock};
use crate::hold::OnLost;
use crate::shared::Waiting;
use crate::spec::{Kind, Spec};
use crate::trial::Trial;
use crate::util::{judge, Pause, Verdict, Wait, CANCELLING, CLEAR_AGAIN, SHORT};
use crate::Result;

/// What makes the result of a request that was granted: of the reply, when the request was sent, and its connection.
pub(super) type Granted<T> = fn(Request, (i64, Instant), Option<Pooled>) -> Result<T>;

/// One owner's request for a lock. Dropping it cancels the request on the server, if it has not ended.
pub(super) struct Request {
    core: Arc<Core>,
    waiting: Arc<Waiting>,
    on_lost: Option<OnLost>,
    in_flight: Option<InFlight>,
    /// Whether a request was sent whose result is not known.
    unsure: bool,
}

/// A request that is being sent or has no reply yet. It outlives the future that sent it.
type InFlight = Pin<Box<dyn Future<Output = Answer> + Send>>;

impl Request {
    /// Begins it, before anything is sent.
    pub fn begin(lock: &Lock) -> Result<Self> {
        let waiting = lock.core.shared.begin(&lock.spec)?;
        let (core, on_lost) = (lock.core.clone(), lock.on_lost.clone());
        Ok(Self { core, waiting, on_lost, in_flight: None, unsure: false })
    }

    /// Repeats the request until it ends. After an error, nothing of it is left on the server, or soon.
    pub async fn run<T>(mut self, wait: Wait, granted: Granted<T>) -> Result<T> {
        let core = self.core.clone();
        let result = unless(&core.closed, self.attempts(Trial::new(wait))).await;
        let error = match result {
            Some(Ok((reply, sent, pooled))) => return granted(self, (reply, sent), pooled),
            // Another error may have been the first to notice the closing.
            Some(Err(error)) if !self.core.shared.is_closed() => error,
            _ => self.waiting.spec.closed(),
        };
        if let Some(task) = self.give_up() {
            let _ = timeout_at(wait.return_by().into(), task).await;
        }
        Err(error)
    }

    /// The reply, when its request was sent, and its connection.
    async fn attempts(&mut self, mut trial: Trial) -> Result<(i64, Instant, Option<Pooled>)> {
        let (core, waiting) = (self.core.clone(), self.waiting.clone());
        let (shared, pool, spec) = (&core.shared, &core.pool, &waiting.spec);
        loop {
            let began = Instant::now();
            let call = trial.wait.next_call(shared.max_block(spec), spec);
            let tries = call.block.is_none() && !spec.session;
            let answer = self.send(trial.wait, trial.connect_by(shared), tries).await;
            match judge(answer.reply) {
                Verdict::Done(granted) => return Ok((granted, began, answer.pooled)),
                Verdict::Never(error) => return Err(spec.error(error, &pool.nodes)),
                Verdict::Null => {
                    answer.pooled.into_iter().for_each(Pooled::keep);
                    if !trial.continues(spec, call.block, began.elapsed()) {
                        return Err(core.failed(trial, spec).await);
                    }
                }
                // Its connection was closed to end the blocking call, and its place in the queue is reserved.
                Verdict::Again(error) if call.is_cut && answer.unsure && error.is_timeout() => self.unsure = true,
                Verdict::Again(error) => {
                    self.unsure |= answer.unsure;
                    match trial.failed(shared, spec, &pool.nodes, error, began.elapsed()) {
                        Some(pause) => sleep(pause).await,
                        None => return Err(core.failed(trial, spec).await),
                    }
                    if trial.has_ended(shared) {
                        return Err(core.failed(trial, spec).await);
                    }
                }
            }
        }
    }

    async fn send(&mut self, wait: Wait, by: Instant, tries: bool) -> Answer {
        let (core, waiting) = (self.core.clone(), self.waiting.clone());
        let answer = async move {
            let sending = || {
                core.shared.sends(&waiting)?;
                Ok(wait
                    .next_call(core.shared.max_block(&waiting.spec), &waiting.spec)
                    .sent(&waiting.spec, &waiting.owner))
            };
            core.pool.call(waiting.spec.key(), by, tries, &sending).await
        };
        let answer = self.in_flight.insert(Box::pin(answer)).as_mut().await;
        self.in_flight = None;
        answer
    }

    /// A latch has opened.
    pub fn opened(mut self, _: (i64, Instant), pooled: Option<Pooled>) -> Result<()> {
        self.unsure = false;
        pooled.into_iter().for_each(Pooled::keep);
        Ok(())
    }

    /// A lock was granted.
    pub fn granted(mut self, granted: (i64, Instant), pooled: Option<Pooled>) -> Result<Held> {
        let unsure = std::mem::take(&mut self.unsure);
        let (core, spec, owner) = (self.core.clone(), self.waiting.spec.clone(), self.waiting.owner.clone());
        Held::new(core, spec, owner, granted, unsure, self.on_lost.take(), pooled)
    }

    /// Cancels the request on the server, if it may be there.
    fn give_up(&mut self) -> Option<JoinHandle<()>> {
        let (in_flight, unsure) = (self.in_flight.take(), std::mem::take(&mut self.unsure));
        // The wait for a latch ends with its connection.
        let is_open = self.waiting.spec.kind == Kind::Latch || in_flight.is_none() && !unsure;
        if is_open || !self.waiting.is_sent() {
            return None;
        }
        self.waiting.give_up(self.core.shared.clearing());
        let (core, waiting) = (self.core.clone(), self.waiting.clone());
        let (spec, owner) = (&waiting.spec, &waiting.owner);
        let mut last = vec![spec.cancel(owner)];
        last.extend((spec.kind == Kind::Multi).then(|| spec.release(owner)));
        let giving_up = GivingUp { core, waiting: waiting.clone(), in_flight, unsure, was_granted: false };
        Some(self.core.clearing(giving_up.run(), last, spec))
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.give_up();
        self.core.shared.end(&self.waiting.owner);
    }
}

/// A request that is being given up.
struct GivingUp {
    core: Arc<Core>,
    waiting: Arc<Waiting>,
    in_flight: Option<InFlight>,
    unsure: bool,
    was_granted: bool,
}

impl GivingUp {
    async fn run(mut self) {
        let begun = Instant::now();
        let mut pause = Pause::new();
        while let Some(pause) = pause.next(Some(begun + self.waiting.spec.lease.max(CANCELLING))) {
            if self.is_cleared(pause).await {
                break;
            }
            if self.in_flight.is_none() {
                sleep(pause).await;
            } else if begun.elapsed() > SHORT {
                // Its connection may be lost.
                (self.in_flight, self.unsure) = (None, true);
            }
        }
        if self.unsure {
            self.core.clear_later(self.waiting.spec.clone(), self.waiting.owner.clone());
        }
    }

    /// Cancels the request once. After the reply 0, the request may not have arrived yet: then this waits for its
    /// reply, and the request is cancelled again.
    async fn is_cleared(&mut self, pause: Duration) -> bool {
        let cleared = self.core.clear(&self.waiting.spec, &self.waiting.owner).await;
        let is_found = cleared.is_some_and(|number| number > 0);
        let Some(in_flight) = &mut self.in_flight else { return cleared.is_some() };
        if let Ok(answer) = timeout(if is_found { SHORT } else { pause }, in_flight.as_mut()).await {
            self.in_flight = None;
            self.unsure |= answer.unsure;
            self.was_granted = matches!(answer.reply, Ok(Value::Int(_)));
            answer.pooled.into_iter().for_each(Pooled::keep);
        } else if is_found {
            (self.in_flight, self.unsure) = (None, true);
        }
        match cleared {
            Some(0) => self.in_flight.is_none() && !std::mem::take(&mut self.was_granted),
            cleared => cleared.is_some(),
        }
    }
}

impl Core {
    /// Cancels an acquisition until nothing of it is on the server, or can arrive there.
    pub(super) async fn end_wait(self: Arc<Self>, waiting: Arc<Waiting>, end: Instant) {
        let (mut pause, mut missing) = (Pause::new(), None);
        while self.shared.may_wait(&waiting) {
            // A future that is not polled does not end, but nothing of it is on the server then, and soon nothing arrives.
            let is_cleared = match self.clear(&waiting.spec, &waiting.owner).await {
                Some(0) => missing.get_or_insert_with(Instant::now).elapsed() >= CLEAR_AGAIN,
                cleared => cleared.is_some(),
            };
            match pause.next(Some(end)) {
                Some(pause) if !is_cleared => sleep(pause).await,
                _ => break,
            }
        }
    }

    /// Cancels a request once more a little later, when one that was delayed by the network has arrived.
    pub(super) fn clear_later(self: &Arc<Self>, spec: Arc<Spec>, owner: String) {
        let (core, waits) = (self.clone(), spec.clone());
        let later = async move {
            sleep(CLEAR_AGAIN).await;
            core.clear(&spec, &owner).await;
        };
        self.clearing(later, Vec::new(), &waits);
    }
}
