//! Ending a wait from another thread.

use std::collections::HashMap;
use std::sync::{mpsc, Arc, Mutex};
use std::thread;
use std::time::Instant;

use super::request::Request;
use super::{Guard, Lock};
use crate::util::{left, locked, Wait, CANCELLING, LATE};
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
/// assert!(matches!(waits.join().unwrap(), Err(lock_so::Error::Cancelled { .. })));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<Mutex<State>>);

/// The result of a wait; `None`: it is cancelled.
type Ended = Option<Result<Guard>>;

#[derive(Debug, Default)]
struct State {
    is_cancelled: bool,
    /// The waits, by their owners.
    waits: HashMap<String, mpsc::Sender<Ended>>,
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
        state.waits.drain().for_each(|(_, wait)| drop(wait.send(None)));
    }

    /// Whether [`cancel`](Cancel::cancel) was called.
    pub fn is_cancelled(&self) -> bool {
        locked(&self.0).is_cancelled
    }
}

/// Waits on a thread of its own, so that the caller can return if the server does not respond.
pub(super) fn acquire(lock: &Lock, wait: Wait, cancel: &Cancel) -> Result<Guard> {
    let (core, request) = (lock.core.clone(), Request::new(lock));
    let (waiting, owner, named) = (request.begin()?, request.owner.clone(), request.spec.to_string());
    let (sender, ended) = mpsc::channel();
    {
        let mut state = locked(&cancel.0);
        if state.is_cancelled {
            core.shared.end(&owner);
            return Err(Error::Cancelled { lock: named });
        }
        state.waits.insert(owner.clone(), sender.clone());
    }
    let (clearing, waits) = (core.shared.clearing(), waiting.clone());
    let run = move || {
        // If the caller has returned, its guard is dropped here.
        drop(sender.send(Some(request.run(&waits, wait))));
        drop(clearing);
    };
    let started = thread::Builder::new().spawn(run);
    if let Err(error) = started {
        core.shared.end(&owner);
        locked(&cancel.0).waits.remove(&owner);
        return Err(Error::Connection { lock: named, error: error.into() });
    }
    let mut result = ended.recv().unwrap_or_default();
    locked(&cancel.0).waits.remove(&owner);
    if result.is_none() {
        let now = Instant::now();
        core.end_wait(waiting, now + lock.spec.lease.max(CANCELLING));
        result = ended.recv_timeout(left(now + LATE - LATE / 10)).unwrap_or_default();
        if let Some(Ok(guard)) = result {
            core.discard(guard);
            result = None;
        }
    }
    result.unwrap_or(Err(Error::Cancelled { lock: named }))
}
