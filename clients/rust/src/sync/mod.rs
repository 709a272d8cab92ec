//! Guards for threads, on redis-rs's blocking connections.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! let client = redis::Client::open("redis://127.0.0.1/")?;
//! let locks = lock_so::sync::Locks::new(&client);
//! let lock = locks.lock("report").lease(Duration::from_secs(30));
//!
//! let guard = lock.lock_for(Duration::from_secs(10))?;
//! println!("working");
//! guard.release()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod background;
mod beside;
mod cancel;
mod combined;
mod guard;
mod pool;
mod redlock;
mod reentry;
mod request;
mod watch;

use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use redis::{Cmd, Value};

pub use beside::{DelayedQueue, Latch};
pub use cancel::Cancel;
pub use combined::{combine, Combined};
pub use guard::{Guard, Held};
pub use redlock::{MajorityGuard, MajorityLock, RedLock};

use crate::info::LockInfo;
use crate::lock::Factory;
use crate::shared::{Shared, SETTLING};
use crate::spec::Spec;
use crate::util::{again, capped, left, Pause, Wait, REQUEST, SHORT};
use crate::{Result, Settings};
use background::Queue;
use pool::Pool;
use request::Request;

/// A factory of locks for threads.
///
/// One thread has the schedule of all renewals, which at most 8 threads for each node execute. A
/// [session](crate::Lock::session), each key that is watched, and each wait that must be able to end before its blocking
/// call has one more.
pub type Locks = Factory<Core>;

/// A lock of such a factory.
pub type Lock = crate::Lock<Core>;

/// What the locks of a factory share.
#[doc(hidden)]
pub struct Core {
    pool: Arc<Pool>,
    shared: Arc<Shared>,
    queue: Arc<Queue>,
}

impl Drop for Core {
    fn drop(&mut self) {
        self.queue.close();
    }
}

impl Locks {
    /// Creates a factory; connections are opened when they are needed.
    pub fn new(settings: impl Into<Settings>) -> Self {
        let (shared, nodes) = Shared::new(settings.into());
        let pool = Arc::new(Pool::new(nodes, shared.connected.clone()));
        Self { core: Arc::new(Core { pool, shared, queue: Arc::default() }) }
    }

    /// Ends waits with [`Error::Closed`](crate::Error::Closed), releases what is held, and closes the connections, within
    /// `limit`. Returns whether everything was released; the rest ends when its lease expires. If the server does not
    /// respond, a wait that has neither a limit nor a [`Cancel`] ends when its blocking call does.
    pub fn close(&self, limit: Duration) -> bool {
        let core = &self.core;
        let end = Instant::now() + capped(limit);
        let (waits, holds) = core.shared.close();
        for waiting in waits {
            waiting.wake();
            core.end_wait(waiting, end);
        }
        for hold in holds {
            guard::Releasing::closing(core, &hold).continues();
        }
        let is_complete = self.settle(left(end));
        core.queue.close();
        core.pool.close();
        is_complete
    }

    /// Waits until everything that was given up or dropped is cleaned up on the server, for at most `limit`. Call it at
    /// the end of a program. Returns whether the clean-up is complete.
    pub fn settle(&self, limit: Duration) -> bool {
        let end = Instant::now() + capped(limit);
        while !self.core.shared.is_settled() {
            if left(end).is_zero() {
                return false;
            }
            sleep(SETTLING.min(left(end)));
        }
        true
    }
}

crate::both::requests!([] []);

impl Lock {
    /// Acquires the lock, and waits for it without a limit.
    ///
    /// While the server cannot be reached, the request is sent again and again.
    ///
    /// # Errors
    ///
    /// [`InvalidOption`](crate::Error::InvalidOption), [`Deadlock`](crate::Error::Deadlock),
    /// [`NoReplicas`](crate::Error::NoReplicas), [`Refused`](crate::Error::Refused),
    /// [`ModuleMissing`](crate::Error::ModuleMissing), [`Closed`](crate::Error::Closed);
    /// [`Connection`](crate::Error::Connection) if no connection ever succeeded
    /// ([`Settings::connect_timeout`](crate::Settings::connect_timeout)); [`Cancelled`](crate::Error::Cancelled) if the lock has a [`Cancel`].
    pub fn lock(&self) -> Result<Guard> {
        self.acquire(Wait::forever())
    }

    /// Acquires the lock if it is free now.
    ///
    /// # Errors
    ///
    /// [`NotAcquired`](crate::Error::NotAcquired) if it is not free; [`Connection`](crate::Error::Connection) if the
    /// server has not replied within a tenth of a second; those of [`lock`](Lock::lock).
    pub fn try_lock(&self) -> Result<Guard> {
        self.acquire(Wait::at_most(Duration::ZERO))
    }

    /// Acquires the lock, and waits for it for this time at most.
    ///
    /// # Errors
    ///
    /// [`NotAcquired`](crate::Error::NotAcquired) if it could not be acquired in time, a tenth of a second later at most;
    /// those of [`lock`](Lock::lock). Nothing of the request is left on the server, or soon.
    pub fn lock_for(&self, time: Duration) -> Result<Guard> {
        self.acquire(Wait::at_most(time))
    }

    /// The thread that holds the lock acquires it again at once, without a request to the server. It gets another guard
    /// of the same hold, with its owner and token; the last of these guards that is released or dropped releases the
    /// lock. All of these acquisitions must be of locks with the same kind and keys, of the same [`Locks`], and
    /// reentrant; the lease, the callback and the other options are those of the first. If the hold was lost, they return
    /// [`NotHeld`](crate::Error::NotHeld). Not for semaphores.
    ///
    /// The thread is the one that acquired the lock, also when its guard was sent to another one.
    pub fn reentrant(mut self) -> Self {
        self.spec.reentrant = true;
        self
    }

    /// [`Cancel::cancel`] ends the waits of this lock. Each of them has a thread of its own, as those with a limit above
    /// half a second have.
    pub fn cancelled_by(mut self, cancel: &Cancel) -> Self {
        self.cancel = Some(cancel.clone());
        self
    }

    /// Acquires it in one request.
    fn acquire_one(&self, wait: Wait) -> Result<Held> {
        if self.spec.reentrant {
            return reentry::acquire(self, wait);
        }
        self.request(wait)
    }

    fn request(&self, wait: Wait) -> Result<Held> {
        if self.cancel.is_some() || wait.is_long() {
            return cancel::acquire(self, wait, Request::granted);
        }
        Request::begin(self)?.run(wait, Request::granted)
    }
}
