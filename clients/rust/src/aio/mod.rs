//! Guards for tokio, on redis-rs's asynchronous connections.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let client = redis::Client::open("redis://127.0.0.1/")?;
//! let locks = lock_so::aio::Locks::new(&client);
//! let lock = locks.lock("report").lease(Duration::from_secs(30));
//!
//! let guard = lock.lock_for(Duration::from_secs(10)).await?;
//! tokio::select! {
//!     () = guard.lost() => println!("another client may have the lock"),
//!     () = async { println!("working") } => {}
//! }
//! guard.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! Each of these futures can be dropped at any time, by a time-out or in `select!`: a task then cancels the request. A
//! guard can be dropped, too: a task then releases the lock. Such tasks end with the runtime, so call
//! [`Locks::settle`](Factory::settle) before, which waits for them.

mod guard;
mod keep;
mod pool;
mod request;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use guard::Guard;

use crate::lock::Factory;
use crate::util::Wait;
use crate::{Result, Settings};
use keep::Keeper;
use pool::Pool;

/// A factory of locks for tokio.
///
/// One task renews all its locks; a [session](crate::Lock::session), and each key that is
/// [watched](crate::Lock::watched), has one more.
pub type Locks = Factory<Core>;

/// A lock of such a factory.
pub type Lock = crate::Lock<Core>;

/// What the locks of a factory share.
pub struct Core {
    pool: Pool,
    max_block: Duration,
    runtime: Handle,
    keeper: Arc<Keeper>,
    /// How many clean-up tasks are running.
    clearing: watch::Sender<usize>,
}

impl Drop for Core {
    fn drop(&mut self) {
        self.keeper.close();
    }
}

impl Core {
    /// Runs a clean-up task: [`Locks::settle`](Factory::settle) waits for it.
    fn clearing(self: &Arc<Self>, task: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
        self.clearing.send_modify(|tasks| *tasks += 1);
        let core = self.clone();
        self.runtime.spawn(async move {
            task.await;
            core.clearing.send_modify(|tasks| *tasks -= 1);
        })
    }
}

impl Locks {
    /// Creates a factory; connections are opened when they are needed.
    ///
    /// # Panics
    ///
    /// If it is not called in a tokio runtime. The locks must be used in the same runtime.
    pub fn new(settings: impl Into<Settings>) -> Self {
        let Settings { nodes, max_block } = settings.into();
        let (pool, runtime) = (Pool::new(nodes), Handle::current());
        Self {
            core: Arc::new(Core { pool, max_block, runtime, keeper: Arc::default(), clearing: watch::Sender::new(0) }),
        }
    }

    /// Waits until everything that was given up or dropped is cleaned up on the server, for at most `limit`. Call it at
    /// the end of a program. Returns whether the clean-up is complete.
    pub async fn settle(&self, limit: Duration) -> bool {
        let mut clearing = self.core.clearing.subscribe();
        let settled = tokio::time::timeout(limit, clearing.wait_for(|tasks| *tasks == 0)).await;
        settled.is_ok()
    }
}

impl Lock {
    /// Acquires the lock, and waits for it without a limit.
    ///
    /// While the server cannot be reached, the request is sent again and again.
    ///
    /// # Errors
    ///
    /// [`Deadlock`](crate::Error::Deadlock), [`NoReplicas`](crate::Error::NoReplicas),
    /// [`Refused`](crate::Error::Refused).
    pub async fn lock(&self) -> Result<Guard> {
        request::Request::new(self).run(Wait::forever()).await
    }

    /// Acquires the lock if it is free now.
    ///
    /// # Errors
    ///
    /// [`NotAcquired`](crate::Error::NotAcquired) if it is not free; [`Connection`](crate::Error::Connection) if the
    /// server cannot be reached; those of [`lock`](Lock::lock).
    pub async fn try_lock(&self) -> Result<Guard> {
        request::Request::new(self).run(Wait::at_most(Duration::ZERO)).await
    }

    /// Acquires the lock, and waits for it for this time at most.
    ///
    /// # Errors
    ///
    /// [`NotAcquired`](crate::Error::NotAcquired) if it could not be acquired in time,
    /// [`Connection`](crate::Error::Connection) if the server could not be reached then; those of [`lock`](Lock::lock).
    /// Nothing of the request is left on the server.
    pub async fn lock_for(&self, time: Duration) -> Result<Guard> {
        request::Request::new(self).run(Wait::at_most(time)).await
    }
}
