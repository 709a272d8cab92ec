//! Acquisition: one blocking call after the other, until the lock is granted, or the request given up or its future
//! dropped.

use std::future::{poll_fn, Future};
use std::pin::{pin, Pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use redis::{Cmd, Value};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::pool::{Answer, Line, Sending};
use super::{Core, Guard, Lock};
use crate::hold::OnLost;
use crate::spec::{new_owner, Kind, Spec};
use crate::trial::{held_by, Trial};
use crate::util::{judge, Pause, Verdict, Wait, LATE, LATER, LATE_REPLY, PATIENCE, SHORT};
use crate::{Error, Result};

/// One owner's request for a lock. Dropping it cancels the request on the server, if it has not ended.
pub(super) struct Request {
    core: Arc<Core>,
    spec: Arc<Spec>,
    owner: String,
    on_lost: Option<OnLost>,
    flying: Option<Flying>,
    /// Whether a request was sent whose result is not known.
    unsure: bool,
}

/// A request that is being sent or has no reply yet. It outlives the future that sent it.
struct Flying {
    answer: Pin<Box<dyn Future<Output = Answer> + Send>>,
    is_sent: Arc<AtomicBool>,
}

impl Request {
    pub fn new(lock: &Lock) -> Self {
        Self {
            core: lock.core.clone(),
            spec: Arc::new(lock.spec.clone()),
            owner: new_owner(),
            on_lost: lock.on_lost.clone(),
            flying: None,
            unsure: false,
        }
    }

    /// Repeats the request until it ends. After an error, nothing of it is left on the server, or soon.
    pub async fn run(mut self, wait: Wait) -> Result<Guard> {
        let core = self.core.clone();
        core.shared.begin(&self.owner, &self.spec)?;
        let mut closed = core.closed.subscribe();
        let lock = self.spec.clone();
        let result = {
            let (mut attempts, mut closed) =
                (pin!(self.attempts(Trial::new(wait))), pin!(closed.wait_for(|closed| *closed)));
            poll_fn(|context| match attempts.as_mut().poll(context) {
                Poll::Pending if closed.as_mut().poll(context).is_ready() => {
                    Poll::Ready(Err(Error::Closed { lock: lock.to_string() }))
                }
                result => result,
            })
            .await
        };
        match result {
            Ok((granted, sent, line)) => self.granted(granted, sent, line),
            Err(error) => self.fail(error, wait).await,
        }
    }

    /// The reply, when its request was sent, and its connection.
    async fn attempts(&mut self, mut trial: Trial) -> Result<(i64, Instant, Option<Line>)> {
        let (core, spec) = (self.core.clone(), self.spec.clone());
        let (shared, pool) = (&core.shared, &core.pool);
        loop {
            let sent = Instant::now();
            let call = trial.next_call(shared, &spec);
            let answer = self.ask(trial.wait, trial.connect_within(shared), call.block.is_some()).await;
            match judge(answer.reply) {
                Verdict::Done(granted) => return Ok((granted, sent, answer.line)),
                Verdict::Never(error) => return Err(spec.error(error, &pool.nodes)),
                Verdict::Null => {
                    answer.line.into_iter().for_each(|line| pool.keep(line));
                    if !trial.goes_on() {
                        return Err(over(trial, &core, &spec).await);
                    }
                }
                // Its connection was closed to end the blocking call, and its place in the queue is reserved.
                Verdict::Again(error) if call.is_cut && answer.unsure && error.is_timeout() => self.unsure = true,
                Verdict::Again(error) => {
                    self.unsure |= answer.unsure;
                    match trial.failed(shared, &spec, &pool.nodes, error, sent.elapsed()) {
                        Some(pause) => sleep(pause).await,
                        None => return Err(over(trial, &core, &spec).await),
                    }
                    if trial.is_over(shared) {
                        return Err(over(trial, &core, &spec).await);
                    }
                }
            }
        }
    }

    async fn ask(&mut self, wait: Wait, limit: Duration, waits: bool) -> Answer {
        let (core, spec, owner) = (self.core.clone(), self.spec.clone(), self.owner.clone());
        let is_sent = Arc::<AtomicBool>::default();
        let sent = is_sent.clone();
        let answer = async move {
            let command = || -> (Cmd, Duration) {
                let call = wait.next_call(core.shared.max_block, spec.kind == Kind::Fair);
                (spec.acquire(&owner, call.block), call.listen + spec.replicas_time())
            };
            core.pool.call(spec.key(), Sending { command: &command, limit, waits, is_sent: &sent }).await
        };
        let flying = self.flying.insert(Flying { answer: Box::pin(answer), is_sent });
        let answer = flying.answer.as_mut().await;
        self.flying = None;
        answer
    }

    fn granted(mut self, granted: i64, sent: Instant, line: Option<Line>) -> Result<Guard> {
        let unsure = std::mem::take(&mut self.unsure);
        let (core, spec, owner) = (self.core.clone(), self.spec.clone(), self.owner.clone());
        let guard = Guard::new(core, spec, owner, granted, unsure, self.on_lost.take(), (sent, line));
        if self.core.shared.add(guard.hold()) {
            return Ok(guard);
        }
        Err(Error::Closed { lock: self.spec.to_string() })
    }

    async fn fail(mut self, error: Error, wait: Wait) -> Result<Guard> {
        if let Some(task) = self.give_up() {
            let here = match wait.end() {
                Some(end) if wait.has_timed_out() => (end + LATE - LATE / 10).saturating_duration_since(Instant::now()),
                _ => LATE_REPLY,
            };
            let _ = timeout(here, task).await;
        }
        Err(error)
    }

    /// Cancels the request on the server, if it may be there.
    fn give_up(&mut self) -> Option<JoinHandle<()>> {
        let flying = self.flying.take().filter(|flying| flying.is_sent.load(Ordering::Relaxed));
        let unsure = std::mem::take(&mut self.unsure);
        if flying.is_none() && !unsure {
            return None;
        }
        let giving_up = GivingUp {
            core: self.core.clone(),
            spec: self.spec.clone(),
            owner: self.owner.clone(),
            flying,
            unsure,
            was_granted: false,
        };
        let last = vec![self.spec.cancel(&self.owner), self.spec.release(&self.owner)];
        let last = if self.spec.kind == Kind::Multi { last } else { last.into_iter().take(1).collect() };
        Some(self.core.clearing(giving_up.run(), last, &self.spec))
    }
}

/// The error in the end, with the names of the holders if there is time to ask for them.
async fn over(trial: Trial, core: &Core, spec: &Spec) -> Error {
    let (mut error, asks) = trial.over(spec, &core.pool.nodes);
    let Some(listen) = asks.filter(|listen| !listen.is_zero()) else { return error };
    for key in &spec.keys {
        if let Ok(info) = core.pool.short(key, &Spec::info(key), listen).await.reply {
            error = held_by(error, &info);
        }
        if matches!(&error, Error::NotAcquired(known) if !known.holders.is_empty()) {
            break;
        }
    }
    error
}

impl Drop for Request {
    fn drop(&mut self) {
        self.core.shared.end(&self.owner);
        self.give_up();
    }
}

/// A request that is being given up.
struct GivingUp {
    core: Arc<Core>,
    spec: Arc<Spec>,
    owner: String,
    flying: Option<Flying>,
    unsure: bool,
    was_granted: bool,
}

impl GivingUp {
    async fn run(mut self) {
        let end = Instant::now() + self.spec.lease.max(PATIENCE);
        let mut pause = Pause::new();
        while !self.is_cleared().await {
            match pause.next(Some(end)) {
                // With a pending request, the wait for its reply was a pause already.
                Some(pause) if self.flying.is_none() => sleep(pause).await,
                Some(_) => {}
                None => break,
            }
        }
        if self.unsure {
            self.core.clear_later(self.spec, self.owner);
        }
    }

    /// Cancels the request once. After the reply 0, the request may not have arrived yet: then this waits for its
    /// reply, and the request is cancelled again.
    async fn is_cleared(&mut self) -> bool {
        let cleared = self.core.clear(&self.spec, &self.owner).await;
        let listen = if cleared.is_some_and(|number| number > 0) { SHORT } else { Duration::from_millis(20) };
        let Some(flying) = &mut self.flying else { return cleared.is_some() };
        if let Ok(answer) = timeout(listen, flying.answer.as_mut()).await {
            self.flying = None;
            self.unsure |= answer.unsure;
            self.was_granted = matches!(answer.reply, Ok(Value::Int(_)));
            answer.line.into_iter().for_each(|line| self.core.pool.keep(line));
        } else if listen == SHORT {
            self.flying = None;
            self.unsure = true;
        }
        match cleared {
            Some(0) => self.flying.is_none() && !std::mem::take(&mut self.was_granted),
            cleared => cleared.is_some(),
        }
    }
}

impl Core {
    /// Ends a wait, or releases the hold. Returns the reply: 0 if there was neither, `None` without a reply.
    pub(super) async fn clear(&self, spec: &Spec, owner: &str) -> Option<i64> {
        let mut reply = self.pool.short(spec.key(), &spec.cancel(owner), SHORT).await.reply;
        if spec.kind == Kind::Multi && matches!(reply, Ok(Value::Int(0))) {
            reply = self.pool.short(spec.key(), &spec.release(owner), SHORT).await.reply;
        }
        match judge(reply) {
            Verdict::Done(number) => Some(number),
            Verdict::Again(_) => None,
            Verdict::Null | Verdict::Never(_) => Some(0),
        }
    }

    /// The same once more a little later, when a request that was delayed by the network has arrived.
    pub(super) fn clear_later(self: &Arc<Self>, spec: Arc<Spec>, owner: String) {
        let (core, waits) = (self.clone(), spec.clone());
        let later = async move {
            sleep(LATER).await;
            core.clear(&spec, &owner).await;
        };
        self.clearing(later, Vec::new(), &waits);
    }
}
