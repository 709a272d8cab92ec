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
mod cancel;
mod guard;
mod pool;
mod request;
mod watch;

use std::sync::Arc;
use std::time::{Duration, Instant};

pub use cancel::Cancel;
pub use guard::Guard;

use crate::lock::Factory;
use crate::util::Wait;
use crate::{Result, Settings};
use background::Queue;
use pool::Pool;

/// A factory of locks for threads.
///
/// One thread renews the leases of all its locks; a [session](crate::Lock::session) and each key that is
/// [watched](crate::Lock::watched) has one more.
pub type Locks = Factory<Core>;

/// A lock that such a factory makes.
pub type Lock = crate::Lock<Core>;

/// What the locks of one factory share.
pub struct Core {
    pool: Pool,
    max_block: Duration,
    queue: Arc<Queue>,
}

impl Drop for Core {
    fn drop(&mut self) {
        self.queue.close();
    }
}

impl Locks {
    /// Makes a factory; connections are made when they are needed.
    pub fn new(settings: impl Into<Settings>) -> Self {
        let Settings { nodes, max_block } = settings.into();
        let queue = Arc::default();
        Self { core: Arc::new(Core { pool: Pool::new(nodes), max_block, queue }) }
    }

    /// Waits until all that was given up or dropped is cleared up on the server, for at most `limit`; for the end of
    /// a program. Returns whether it is.
    pub fn settle(&self, limit: Duration) -> bool {
        self.core.queue.settle(Instant::now() + limit)
    }
}

impl Lock {
    /// Acquires the lock, and waits for it as long as it takes.
    ///
    /// While the server is out of reach it is asked again and again.
    ///
    /// # Errors
    ///
    /// [`Deadlock`](crate::Error::Deadlock), [`NoReplicas`](crate::Error::NoReplicas),
    /// [`Refused`](crate::Error::Refused); [`Cancelled`](crate::Error::Cancelled) if the lock has a [`Cancel`].
    pub fn lock(&self) -> Result<Guard> {
        self.acquire(Wait::forever())
    }

    /// Acquires the lock if it is free now.
    ///
    /// # Errors
    ///
    /// [`NotAcquired`](crate::Error::NotAcquired) if it is not; [`Connection`](crate::Error::Connection) if the server
    /// is out of reach; those of [`lock`](Lock::lock).
    pub fn try_lock(&self) -> Result<Guard> {
        self.acquire(Wait::at_most(Duration::ZERO))
    }

    /// Acquires the lock, and waits for it at most this long.
    ///
    /// # Errors
    ///
    /// [`NotAcquired`](crate::Error::NotAcquired) if it was not free in time, [`Connection`](crate::Error::Connection)
    /// if the server was out of reach then; those of [`lock`](Lock::lock). Nothing of the request is left.
    pub fn lock_for(&self, time: Duration) -> Result<Guard> {
        self.acquire(Wait::at_most(time))
    }

    /// Waits of this lock end when `cancel` says so. Each of them has a thread of its own then.
    pub fn cancelled_by(mut self, cancel: &Cancel) -> Self {
        self.cancel = Some(cancel.clone());
        self
    }

    fn acquire(&self, wait: Wait) -> Result<Guard> {
        match &self.cancel {
            None => request::Request::new(self).run(wait),
            Some(cancel) => cancel::acquire(self, wait, cancel),
        }
    }
}
