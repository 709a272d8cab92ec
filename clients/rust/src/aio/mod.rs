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
//!     () = guard.lost() => println!("somebody else may have the lock"),
//!     () = async { println!("working") } => {}
//! }
//! guard.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! Any of these futures can be dropped at any time, by a time-out or in `select!`: a task then takes back what was asked
//! for. So can a guard, whose task releases the lock. Such tasks die with the runtime: before its end let
//! [`Locks::settle`](Factory::settle) wait for them.

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
/// One task sees to the renewal of all its locks; a [session](crate::Lock::session) and each key that is [watched](crate::Lock::watched) has
/// one more.
pub type Locks = Factory<Core>;

/// A lock that such a factory makes.
pub type Lock = crate::Lock<Core>;

/// What the locks of one factory share.
pub struct Core {
    pool: Pool,
    max_block: Duration,
    runtime: Handle,
    keeper: Arc<Keeper>,
    /// How many tasks are clearing up.
    clearing: watch::Sender<usize>,
}

impl Drop for Core {
    fn drop(&mut self) {
        self.keeper.close();
    }
}

impl Core {
    /// Runs a task that clears up: [`Locks::settle`](Factory::settle) waits for it.
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
    /// Makes a factory; connections are made when they are needed.
    ///
    /// # Panics
    ///
    /// If it is not called in a tokio runtime, which is to be the one that the locks are used in.
    pub fn new(settings: impl Into<Settings>) -> Self {
        let Settings { nodes, max_block } = settings.into();
        let (pool, runtime) = (Pool::new(nodes), Handle::current());
        Self {
            core: Arc::new(Core { pool, max_block, runtime, keeper: Arc::default(), clearing: watch::Sender::new(0) }),
        }
    }

    /// Waits until all that was given up or dropped is cleared up on the server, for at most `limit`; for the end of
    /// a program. Returns whether it is.
    pub async fn settle(&self, limit: Duration) -> bool {
        let mut clearing = self.core.clearing.subscribe();
        let settled = tokio::time::timeout(limit, clearing.wait_for(|tasks| *tasks == 0)).await;
        settled.is_ok()
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
    /// [`Refused`](crate::Error::Refused).
    pub async fn lock(&self) -> Result<Guard> {
        request::Request::new(self).run(Wait::forever()).await
    }

    /// Acquires the lock if it is free now.
    ///
    /// # Errors
    ///
    /// [`NotAcquired`](crate::Error::NotAcquired) if it is not; [`Connection`](crate::Error::Connection) if the server
    /// is out of reach; those of [`lock`](Lock::lock).
    pub async fn try_lock(&self) -> Result<Guard> {
        request::Request::new(self).run(Wait::at_most(Duration::ZERO)).await
    }

    /// Acquires the lock, and waits for it at most this long.
    ///
    /// # Errors
    ///
    /// [`NotAcquired`](crate::Error::NotAcquired) if it was not free in time, [`Connection`](crate::Error::Connection)
    /// if the server was out of reach then; those of [`lock`](Lock::lock). Nothing of the request is left.
    pub async fn lock_for(&self, time: Duration) -> Result<Guard> {
        request::Request::new(self).run(Wait::at_most(time)).await
    }
}
