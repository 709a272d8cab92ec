//! Ending a wait from another thread.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::request::Request;
use super::{Guard, Lock};
use crate::util::{locked, Wait, LATE, LATE_REPLY};
use crate::{Error, Result};

/// Ends waits from another thread: those of locks with [`Lock::cancelled_by`].
///
/// ```no_run
/// # let client = redis::Client::open("redis://127.0.0.1/").unwrap();
/// # let locks = lock_so::sync::Locks::new(&client);
/// let cancel = lock_so::sync::Cancel::new();
/// let lock = locks.lock("report").cancelled_by(&cancel);
/// let waits = std::thread::spawn(move || lock.lock());
/// cancel.cancel();
/// assert!(matches!(waits.join().unwrap(), Err(lock_so::Error::Cancelled)));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    is_cancelled: Mutex<bool>,
    news: Condvar,
}

impl Cancel {
    /// Creates one that is not cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends current and later waits. They return [`Error::Cancelled`] within a tenth of a second. If the server has not
    /// confirmed the cancellation by then, it continues in the background.
    pub fn cancel(&self) {
        *locked(&self.0.is_cancelled) = true;
        self.0.news.notify_all();
    }

    /// Whether [`cancel`](Cancel::cancel) was called.
    pub fn is_cancelled(&self) -> bool {
        *locked(&self.0.is_cancelled)
    }
}

/// Where the waiting thread stores its result. If the result is not used, its guard is dropped.
type Slot = Arc<Mutex<Option<Result<Guard>>>>;

/// Waits on a thread of its own, so that the caller can return if the server does not respond.
pub(super) fn acquire(lock: &Lock, wait: Wait, cancel: &Cancel) -> Result<Guard> {
    let request = Request::new(lock);
    let ends_wait = request.spec.end_wait(&request.owner);
    let slot = Slot::default();
    begin(lock, request, wait, cancel, slot.clone());

    let ended = |flag: &bool| locked(&slot).is_none() && !*flag;
    let flag = locked(&cancel.0.is_cancelled);
    let waited = cancel.0.news.wait_while(flag, |flag| ended(flag));
    drop(waited.unwrap_or_else(PoisonError::into_inner));

    let end = Instant::now() + LATE;
    loop {
        if let Some(result) = locked(&slot).take() {
            return result.and_then(|guard| if cancel.is_cancelled() { discard(guard) } else { Ok(guard) });
        }
        if Instant::now() >= end {
            return Err(Error::Cancelled);
        }
        lock.core.pool.short(lock.spec.key(), &ends_wait, LATE_REPLY);
        let flag = locked(&cancel.0.is_cancelled);
        drop(nap(cancel, flag, &slot));
    }
}

fn begin(lock: &Lock, request: Request, wait: Wait, cancel: &Cancel, slot: Slot) {
    let (queue, cancel) = (lock.core.queue.clone(), cancel.clone());
    queue.begin();
    thread::spawn(move || {
        let result = request.run(wait);
        // With the mutex locked, so that no notification is missed between the check and the wait.
        let flag = locked(&cancel.0.is_cancelled);
        *locked(&slot) = Some(result);
        drop(flag);
        cancel.0.news.notify_all();
        drop(slot);
        queue.end();
    });
}

/// Waits for a result, for some milliseconds: the request may not have arrived at the server yet.
fn nap<'a>(cancel: &'a Cancel, flag: MutexGuard<'a, bool>, slot: &Slot) -> MutexGuard<'a, bool> {
    let waited = cancel.0.news.wait_timeout_while(flag, Duration::from_millis(20), |_| locked(slot).is_none());
    waited.unwrap_or_else(PoisonError::into_inner).0
}

fn discard(guard: Guard) -> Result<Guard> {
    drop(guard);
    Err(Error::Cancelled)
}
