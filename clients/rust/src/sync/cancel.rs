//! Ending a wait from another thread.

use std::collections::HashMap;
use std::fmt;
use std::sync::{mpsc, Arc, Mutex, Weak};
use std::thread;
use std::time::Instant;

use super::request::{Granted, Request};
use super::Lock;
use crate::shared::Waiting;
use crate::trial::Trial;
use crate::util::{left, locked, Wait, CANCELLING, TOLERANCE};
use crate::{Error, Result};

/// Ends waits from another thread: those of locks with [`Lock::cancelled_by`], and of what else has a function of this
/// name; and consumers of delayed queues.
///
/// ```no_run
/// # let client = redis::Client::open("redis://127.0.0.1/").unwrap();
/// # let locks = lock_so::sync::Locks::new(&client);
/// let cancel = lock_so::sync::Cancel::new();
/// let lock = locks.lock("report").cancelled_by(&cancel);
/// let waits = std::thread::spawn(move || lock.lock());
/// cancel.cancel();
/// assert!(matches!(waits.join().unwrap(), Err(lock_so::Error::Cancelled { .. })));
/// ```
#[derive(Clone, Default)]
pub struct Cancel(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    is_cancelled: bool,
    /// The waits, by their owners.
    waits: HashMap<String, Arc<Waiting>>,
    /// What ends with it.
    children: Vec<Weak<Mutex<State>>>,
}

impl Cancel {
    /// Creates one that is not cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends current and later waits. They return [`Error::Cancelled`] within a tenth of a second. If the server has not
    /// confirmed the cancellation by then, it continues in the background.
    pub fn cancel(&self) {
        let mut state = locked(&self.0);
        state.is_cancelled = true;
        state.waits.drain().for_each(|(_, waiting)| waiting.wake());
        let children = std::mem::take(&mut state.children);
        drop(state);
        children.iter().filter_map(Weak::upgrade).for_each(|child| Self(child).cancel());
    }

    /// One that is cancelled with each of these, and can be cancelled alone.
    pub(super) fn child(parents: &[Self]) -> Self {
        let child = Self::new();
        for parent in parents {
            let mut state = locked(&parent.0);
            locked(&child.0).is_cancelled |= state.is_cancelled;
            state.children.retain(|child| child.strong_count() > 0);
            state.children.push(Arc::downgrade(&child.0));
        }
        child
    }

    /// Whether [`cancel`](Cancel::cancel) was called.
    pub fn is_cancelled(&self) -> bool {
        locked(&self.0).is_cancelled
    }

    /// Returns whether it was cancelled before.
    fn add(&self, waiting: &Arc<Waiting>) -> bool {
        let mut state = locked(&self.0);
        if !state.is_cancelled {
            state.waits.insert(waiting.owner.clone(), waiting.clone());
        }
        state.is_cancelled
    }

    fn remove(&self, owner: &str) {
        let ended = locked(&self.0).waits.remove(owner);
        drop(ended);
    }
}

impl fmt::Debug for Cancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancel").field("is_cancelled", &self.is_cancelled()).finish_non_exhaustive()
    }
}

/// Waits on a thread of its own, so that the caller can return in time, whatever the server does.
pub(super) fn acquire<T: Send + 'static>(lock: &Lock, wait: Wait, granted: Granted<T>) -> Result<T> {
    let request = Request::begin(lock)?;
    let (core, waiting, cancel) = (&lock.core, request.waiting.clone(), lock.cancel.clone().unwrap_or_default());
    let cancelled = || Error::Cancelled { lock: lock.spec.to_string() };
    // A result; `None`: the wait is to end.
    let (sender, receiver) = mpsc::channel::<Option<Result<T>>>();
    let wakes = sender.clone();
    waiting.wakes(move || drop(wakes.send(None)));
    if cancel.add(&waiting) {
        core.shared.end(&waiting.owner);
        return Err(cancelled());
    }
    let counted = waiting.clone();
    let started = thread::Builder::new().spawn(move || {
        // If the caller has returned, its guard is dropped here.
        drop(sender.send(Some(request.run(wait, granted))));
        drop(counted);
    });
    if let Err(error) = started {
        core.shared.end(&waiting.owner);
        cancel.remove(&waiting.owner);
        return Err(lock.spec.error(error.into(), &core.pool.nodes));
    }
    let received = match wait.end() {
        None => receiver.recv().ok(),
        Some(end) => receiver.recv_timeout(left(end + TOLERANCE - TOLERANCE / 20 + lock.spec.replicas_time())).ok(),
    };
    cancel.remove(&waiting.owner);
    if let Some(Some(result)) = received {
        return result;
    }
    let now = Instant::now();
    waiting.give_up(core.shared.clearing());
    core.end_wait(waiting, now + lock.spec.lease.max(CANCELLING));
    let by = if received.is_some() { now + TOLERANCE - TOLERANCE / 10 } else { now };
    if let Ok(Some(Ok(acquired))) = receiver.recv_timeout(left(by)) {
        let mut acquired = Some(acquired); // which may be released slowly
        core.persist(lock.spec.key(), now, move |_| acquired.take().is_some());
    }
    Err(match received {
        Some(_) if cancel.is_cancelled() => cancelled(),
        Some(_) => lock.spec.closed(),
        None => Trial::unanswered(wait).error(&lock.spec, &core.pool.nodes).0,
    })
}
