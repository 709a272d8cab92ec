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
//! guard can be dropped, too: a task then releases the lock. If the runtime ends before, the lock is released by a
//! blocking command, once; [`Locks::settle`](Factory::settle) waits for the tasks instead.

mod guard;
mod keep;
mod pool;
mod request;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use redis::Cmd;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use guard::Guard;

use crate::lock::Factory;
use crate::spec::Spec;
use crate::trial::Shared;
use crate::util::Wait;
use crate::{Result, Settings};
use guard::Releasing;
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
    pool: Arc<Pool>,
    shared: Shared,
    runtime: Handle,
    keeper: Arc<Keeper>,
    /// How many clean-up tasks are running.
    clearing: watch::Sender<usize>,
    closed: watch::Sender<bool>,
}

impl Drop for Core {
    fn drop(&mut self) {
        self.keeper.close();
    }
}

impl Core {
    /// Runs a clean-up task: [`Locks::settle`](Factory::settle) waits for it. If the runtime ends before, as at the end
    /// of `main`, `last` is sent on a blocking connection instead.
    fn clearing(
        self: &Arc<Self>,
        task: impl Future<Output = ()> + Send + 'static,
        last: Vec<Cmd>,
        spec: &Arc<Spec>,
    ) -> JoinHandle<()> {
        self.clearing.send_modify(|tasks| *tasks += 1);
        let mut unfinished = Unfinished { core: self.clone(), spec: spec.clone(), last };
        self.runtime.spawn(async move {
            task.await;
            unfinished.last.clear();
        })
    }
}

/// What a clean-up task does if it is dropped.
struct Unfinished {
    core: Arc<Core>,
    spec: Arc<Spec>,
    last: Vec<Cmd>,
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.last.is_empty() {
            let _ = self.core.pool.nodes.send_blocking(self.spec.key(), &self.last);
        }
        self.core.clearing.send_modify(|tasks| *tasks -= 1);
    }
}

impl Locks {
    /// Creates a factory; connections are opened when they are needed.
    ///
    /// # Panics
    ///
    /// If it is not called in a tokio runtime. The locks must be used in the same runtime.
    pub fn new(settings: impl Into<Settings>) -> Self {
        let (shared, nodes) = Shared::new(settings.into());
        let pool = Arc::new(Pool::new(nodes, shared.connected.clone()));
        let (runtime, keeper) = (Handle::current(), Arc::default());
        let (clearing, closed) = (watch::Sender::new(0), watch::Sender::new(false));
        Self { core: Arc::new(Core { pool, shared, runtime, keeper, clearing, closed }) }
    }

    /// Ends waits with [`Error::Closed`](crate::Error::Closed), releases what is held, and closes the connections, within
    /// `limit`. Returns whether everything was released; the rest ends when its lease expires.
    pub async fn close(&self, limit: Duration) -> bool {
        let live = self.core.shared.close();
        self.core.closed.send_replace(true);
        for hold in live.holds.into_values() {
            Releasing::new(self.core.clone(), hold).begin();
        }
        tokio::task::yield_now().await; // the waits begin to give up
        let is_complete = self.settle(limit).await;
        self.core.pool.close();
        is_complete
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
    /// [`Option`](crate::Error::Option), [`Deadlock`](crate::Error::Deadlock),
    /// [`NoReplicas`](crate::Error::NoReplicas), [`Refused`](crate::Error::Refused),
    /// [`NoModule`](crate::Error::NoModule), [`Closed`](crate::Error::Closed);
    /// [`Connection`](crate::Error::Connection) if no connection ever succeeded
    /// ([`Settings::connect_timeout`](crate::Settings::connect_timeout)).
    pub async fn lock(&self) -> Result<Guard> {
        request::Request::new(self).run(Wait::forever()).await
    }

    /// Acquires the lock if it is free now.
    ///
    /// # Errors
    ///
    /// [`NotAcquired`](crate::Error::NotAcquired) if it is not free; [`Connection`](crate::Error::Connection) if the
    /// server has not replied within a tenth of a second; those of [`lock`](Lock::lock).
    pub async fn try_lock(&self) -> Result<Guard> {
        request::Request::new(self).run(Wait::at_most(Duration::ZERO)).await
    }

    /// Acquires the lock, and waits for it for this time at most.
    ///
    /// # Errors
    ///
    /// [`NotAcquired`](crate::Error::NotAcquired) if it could not be acquired in time, a tenth of a second later at most;
    /// those of [`lock`](Lock::lock). Nothing of the request is left on the server, or soon.
    pub async fn lock_for(&self, time: Duration) -> Result<Guard> {
        request::Request::new(self).run(Wait::at_most(time)).await
    }
}
