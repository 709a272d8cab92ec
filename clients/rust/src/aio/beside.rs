//! What is not a lock: latches and delayed queues.

use std::convert::Infallible;
use std::fmt::Display;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{from_redis_value, Cmd, FromRedisValue, RedisResult, Value};
use tokio::time::sleep;

use super::pool::Pooled;
use super::request::Request;
use super::{unless, Core};
use crate::queue::{is_final, Consumer, Job, Looks, Pending, Taken, LOOK};
use crate::spec::shown;
use crate::trial::Trial;
use crate::util::{again, capped, in_ms, left, Pause, Sent, Wait, SHORT, SLACK};
use crate::{Error, Result};

/// A latch of such a factory.
pub type Latch = crate::Latch<Core>;

/// A delayed queue of such a factory.
pub type DelayedQueue = crate::DelayedQueue<Core>;

crate::latch::latch!([async] [.await]);
crate::queue::queue!([async] [.await]);

impl Latch {
    async fn opened(&self, wait: Wait) -> Result<()> {
        Request::begin(&self.lock)?.run(wait, Request::opened).await
    }
}

impl DelayedQueue {
    /// Calls the handler with one element of the list after the other, as long as there are some and then whenever there
    /// is a new one. For several at a time, call this in several tasks.
    ///
    /// No job is lost with the process that had it: a job whose handler is not complete after [`timeout`] is delivered
    /// again. So one can be done twice: if its handler takes longer, or if the process or the connection fails between the
    /// end of the handler and the server's notice of it. If the handler returns an error, the job is tried again later,
    /// [`max_tries`] times at most; then its value is in the list `{list}:failed`. A panic ends the consumer, and counts as
    /// a try.
    ///
    /// It ends only with an error. To end it, drop its future: a handler that is not complete is dropped too, and its job
    /// is given back, without counting the try. The same happens if the factory is closed.
    ///
    /// # Errors
    ///
    /// [`InvalidOption`](Error::InvalidOption), [`Closed`](Error::Closed); [`Connection`](Error::Connection) if no
    /// connection ever succeeded; [`ModuleMissing`](Error::ModuleMissing), [`Refused`](Error::Refused), for example if the
    /// key is not a list.
    ///
    /// [`timeout`]: crate::DelayedQueue::timeout
    /// [`max_tries`]: crate::DelayedQueue::max_tries
    pub async fn consume<E: Display, F: Future<Output = std::result::Result<(), E>>>(
        &self,
        mut handler: impl FnMut(Job) -> F,
    ) -> Result<Infallible> {
        let core = self.lock.core.clone();
        let mut running = self.running()?;
        let (consumer, spec) = (running.consumer.clone(), running.consumer.spec.clone());
        loop {
            core.shared.check(&spec)?;
            let Some(taken) = running.next().await? else { continue };
            let Some(taken) = core.begin_job(&consumer, taken).await? else { continue };
            let job = taken.job();
            let mut unfinished = Unfinished { core: core.clone(), consumer: consumer.clone(), taken: Some(taken) };
            let result = unless(&core.closed, handler(job)).await;
            let error = result.ok_or_else(|| spec.closed())?.err().map(|error| error.to_string());
            if let Some(taken) = unfinished.taken.take() {
                let (core, consumer) = (core.clone(), consumer.clone());
                // In a task, which ends the job also if this future is dropped.
                let ending = core.clone();
                let ended = async move { ending.end_job(&consumer, &taken, error).await };
                match core.clearing(ended, Vec::new(), &spec).await {
                    Ok(ended) => ended?,
                    Err(_) => return Err(spec.closed()), // the end of the runtime has ended the task
                }
            }
        }
    }
}

/// A job whose handler is not complete. It is given back when this is dropped.
struct Unfinished {
    core: Arc<Core>,
    consumer: Arc<Consumer>,
    taken: Option<Taken>,
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // A handler that panics would be tried without end, and what has timed out is delivered already.
        let is_ours = |taken: &Taken| !std::thread::panicking() && !left(taken.until).is_zero();
        let Some(taken) = self.taken.take().filter(is_ours) else { return };
        let (core, consumer) = (self.core.clone(), self.consumer.clone());
        let (command, spec) = (consumer.give_back(&taken), consumer.spec.clone());
        let last = vec![command.clone()];
        let given_back = async move { drop(core.settle(&consumer, &taken, &[command]).await) };
        self.core.clearing(given_back, last, &spec);
    }
}
