//! Acquisition: one blocking call after the other, until the lock is granted, or the request given up or its future
//! dropped.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::Value;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use super::pool::{Answer, Line, Sending};
use super::{Core, Guard, Lock};
use crate::hold::OnLost;
use crate::spec::{Kind, Spec};
use crate::util::{in_the_end, judge, Call, Pause, Verdict, Wait, LATER, PATIENCE, SHORT};
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
            owner: Uuid::new_v4().to_string(),
            on_lost: lock.on_lost.clone(),
            flying: None,
            unsure: false,
        }
    }

    /// Repeats the request until it ends. After an error, nothing of it is left on the server, or soon.
    pub async fn run(mut self, wait: Wait) -> Result<Guard> {
        let mut pause = Pause::new();
        loop {
            let call = wait.next_call(self.core.max_block, self.spec.kind == Kind::Fair);
            let sent = Instant::now();
            let answer = self.ask(&call).await;
            match judge(answer.reply) {
                Verdict::Done(granted) => return Ok(self.granted(granted, sent, answer.line)),
                Verdict::Never(error) => return self.fail(error.into()).await,
                Verdict::Null => {
                    answer.line.into_iter().for_each(|line| self.core.pool.keep(line));
                    if wait.has_timed_out() {
                        return self.fail(Error::NotAcquired).await;
                    }
                    pause = Pause::new();
                }
                // Its connection was closed to end the blocking call, and its place in the queue is reserved.
                Verdict::Again(error) if call.is_cut && answer.unsure && error.is_timeout() => self.unsure = true,
                Verdict::Again(error) => {
                    self.unsure |= answer.unsure;
                    match pause.next(wait.end()) {
                        Some(pause) => sleep(pause).await,
                        None => return self.fail(in_the_end(error)).await,
                    }
                }
            }
        }
    }

    async fn ask(&mut self, call: &Call) -> Answer {
        let command = self.spec.acquire(&self.owner, call.block);
        let listen = call.listen + self.spec.replicas_time();
        let (core, spec) = (self.core.clone(), self.spec.clone());
        let is_sent = Arc::<AtomicBool>::default();
        let sent = is_sent.clone();
        let answer =
            async move { core.pool.call(spec.key(), Sending { command: &command, listen, is_sent: &sent }).await };
        let flying = self.flying.insert(Flying { answer: Box::pin(answer), is_sent });
        let answer = flying.answer.as_mut().await;
        self.flying = None;
        answer
    }

    fn granted(mut self, granted: i64, sent: Instant, line: Option<Line>) -> Guard {
        let unsure = std::mem::take(&mut self.unsure);
        let (core, spec, owner) = (self.core.clone(), self.spec.clone(), self.owner.clone());
        Guard::new(core, spec, owner, granted, unsure, self.on_lost.take(), (sent, line))
    }

    async fn fail(mut self, error: Error) -> Result<Guard> {
        if let Some(task) = self.give_up() {
            let _ = timeout(PATIENCE, task).await;
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
        Some(self.core.clearing(giving_up.run()))
    }
}

impl Drop for Request {
    fn drop(&mut self) {
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
        let core = self.clone();
        self.clearing(async move {
            sleep(LATER).await;
            core.clear(&spec, &owner).await;
        });
    }
}
