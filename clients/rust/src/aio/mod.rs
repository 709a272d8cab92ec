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

mod beside;
mod combined;
mod guard;
mod keep;
mod pool;
mod redlock;
mod request;

use std::collections::HashMap;
use std::future::{poll_fn, Future};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::{Duration, Instant};

use redis::{Cmd, Connection, RedisResult, Value};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

pub use beside::{DelayedQueue, Latch};
pub use combined::{combine, Combined};
pub use guard::{Guard, Held};
pub use redlock::{MajorityGuard, MajorityLock, RedLock};

use crate::info::LockInfo;
use crate::lock::Factory;
use crate::nodes::{connect_within, Name, Target};
use crate::shared::{Shared, SETTLING};
use crate::spec::Spec;
use crate::util::{again, capped, left, locked, timed_out, Pause, Wait, REQUEST, SHORT};
use crate::{Result, Settings};
use guard::Releasing;
use keep::Keeper;
use pool::Pool;
use request::Request;

/// A factory of locks for tokio.
///
/// One task has the schedule of all renewals; a [session](crate::Lock::session), and each key that is watched, has one
/// more.
pub type Locks = Factory<Core>;

/// A lock of such a factory.
pub type Lock = crate::Lock<Core>;

/// What the locks of a factory share.
#[doc(hidden)]
pub struct Core {
    pool: Arc<Pool>,
    shared: Arc<Shared>,
    runtime: Handle,
    keeper: Arc<Keeper>,
    closed: watch::Sender<bool>,
    last: Mutex<Option<Last>>,
}

/// What sends the commands of clean-up tasks that the end of the runtime has ended.
struct Last {
    /// Until when, for all of them.
    by: Instant,
    connections: HashMap<Name, Connection>,
}

impl Drop for Core {
    fn drop(&mut self) {
        self.keeper.close();
    }
}

impl Core {
    /// Runs a clean-up task: [`Locks::settle`](Factory::settle) waits for it. If the runtime ends before, as at the end
    /// of `main`, `last` is sent on a blocking connection instead.
    fn clearing<T: Send + 'static>(
        self: &Arc<Self>,
        task: impl Future<Output = T> + Send + 'static,
        last: Vec<Cmd>,
        spec: &Arc<Spec>,
    ) -> JoinHandle<T> {
        let counted = self.shared.clearing();
        let mut unfinished = Unfinished { core: self.clone(), spec: spec.clone(), last };
        self.runtime.spawn(async move {
            let _counted = counted;
            let result = task.await;
            unfinished.last.clear();
            result
        })
    }

    fn send_blocking(&self, key: &[u8], commands: &[Cmd]) -> RedisResult<()> {
        let mut last = locked(&self.last);
        let last = last.get_or_insert_with(|| Last { by: Instant::now() + SHORT, connections: HashMap::new() });
        let nodes = &self.pool.nodes;
        let Some(Target { name, .. }) = nodes.target(key) else { return Ok(()) };
        let limit = || match left(last.by) {
            Duration::ZERO => Err(timed_out()),
            left => Ok(left),
        };
        let mut connection = match last.connections.remove(&name) {
            Some(connection) => connection,
            None => connect_within(&nodes.client(&name)?, limit()? / 2)?,
        };
        for command in commands {
            connection.set_read_timeout(Some(limit()?))?;
            command.query::<Value>(&mut connection)?;
        }
        last.connections.insert(name, connection);
        Ok(())
    }
}

/// The result of a future, which is dropped if the condition becomes true: then `None`.
async fn unless<T>(condition: &watch::Sender<bool>, future: impl Future<Output = T>) -> Option<T> {
    let mut condition = condition.subscribe();
    let (mut future, mut ends) = (pin!(future), pin!(condition.wait_for(|is_true| *is_true)));
    poll_fn(|context| match ends.as_mut().poll(context) {
        Poll::Pending => future.as_mut().poll(context).map(Some),
        Poll::Ready(_) => Poll::Ready(None),
    })
    .await
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
            let _ = self.core.send_blocking(self.spec.key(), &self.last);
        }
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
        let (closed, last) = (watch::Sender::new(false), Mutex::default());
        Self { core: Arc::new(Core { pool, shared, runtime, keeper, closed, last }) }
    }

    /// Ends waits with [`Error::Closed`](crate::Error::Closed), releases what is held, and closes the connections, within
    /// `limit`. Returns whether everything was released; the rest ends when its lease expires.
    pub async fn close(&self, limit: Duration) -> bool {
        let core = &self.core;
        let end = Instant::now() + capped(limit);
        let (waits, holds) = core.shared.close();
        core.closed.send_replace(true);
        for waiting in waits {
            let spec = waiting.spec.clone();
            core.clearing(core.clone().end_wait(waiting, end), Vec::new(), &spec);
        }
        for hold in holds {
            Releasing::closing(core, &hold).begin();
        }
        let is_complete = self.settle(left(end)).await;
        core.pool.close();
        is_complete
    }

    /// Waits until everything that was given up or dropped is cleaned up on the server, for at most `limit`. Call it at
    /// the end of a program. Returns whether the clean-up is complete.
    pub async fn settle(&self, limit: Duration) -> bool {
        let end = Instant::now() + capped(limit);
        while !self.core.shared.is_settled() {
            if left(end).is_zero() {
                return false;
            }
            sleep(SETTLING.min(left(end))).await;
        }
        true
    }
}

crate::both::requests!([async] [.await]);

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
    /// ([`Settings::connect_timeout`](crate::Settings::connect_timeout)).
    pub async fn lock(&self) -> Result<Guard> {
        self.acquire(Wait::forever()).await
    }

    /// Acquires the lock if it is free now.
    ///
    /// # Errors
    ///
    /// [`NotAcquired`](crate::Error::NotAcquired) if it is not free; [`Connection`](crate::Error::Connection) if the
    /// server has not replied within a tenth of a second; those of [`lock`](Lock::lock).
    pub async fn try_lock(&self) -> Result<Guard> {
        self.acquire(Wait::at_most(Duration::ZERO)).await
    }

    /// Acquires the lock, and waits for it for this time at most.
    ///
    /// # Errors
    ///
    /// [`NotAcquired`](crate::Error::NotAcquired) if it could not be acquired in time, a tenth of a second later at most;
    /// those of [`lock`](Lock::lock). Nothing of the request is left on the server, or soon.
    pub async fn lock_for(&self, time: Duration) -> Result<Guard> {
        self.acquire(Wait::at_most(time)).await
    }

    /// Acquires it in one request.
    async fn acquire_one(&self, wait: Wait) -> Result<Held> {
        Request::begin(self)?.run(wait, Request::granted).await
    }
}
