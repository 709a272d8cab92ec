//! A lock as the user describes it, the same for all flavours.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::hold::OnLost;
use crate::spec::{Kind, Spec};

/// A factory of locks, with connections of its own to the servers of a client.
///
/// It is cheap to clone; all clones share the connections. See [`sync::Locks`](crate::sync::Locks) and
/// [`aio::Locks`](crate::aio::Locks) for how to make one.
pub struct Factory<C> {
    pub(crate) core: Arc<C>,
}

impl<C> Clone for Factory<C> {
    fn clone(&self) -> Self {
        Self { core: self.core.clone() }
    }
}

impl<C> fmt::Debug for Factory<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locks").finish_non_exhaustive()
    }
}

impl<C> Factory<C> {
    /// A lock with one holder (`LOCK.ACQUIRE`). A newcomer may pass those who wait when it happens to be free.
    pub fn lock(&self, key: impl Into<Vec<u8>>) -> Lock<C> {
        self.make(Kind::Lock, vec![key.into()])
    }

    /// The same lock, first come first served (`LOCK.FAIR`).
    ///
    /// A wait keeps its place in the queue when its connection is lost, and from one blocking call to the next
    /// ([`Settings::max_block`](crate::Settings::max_block)), if the server's `lock.fair-reserve` is not 0.
    pub fn fair(&self, key: impl Into<Vec<u8>>) -> Lock<C> {
        self.make(Kind::Fair, vec![key.into()])
    }

    /// A read-write lock, to read with others (`LOCK.RWREAD`).
    pub fn read(&self, key: impl Into<Vec<u8>>) -> Lock<C> {
        self.make(Kind::Read, vec![key.into()])
    }

    /// A read-write lock, to write alone (`LOCK.RWWRITE`).
    pub fn write(&self, key: impl Into<Vec<u8>>) -> Lock<C> {
        self.make(Kind::Write, vec![key.into()])
    }

    /// A multi-key lock: all of these keys, or none (`LOCK.MACQUIRE`). In a cluster the keys must share a slot.
    pub fn multi<K: Into<Vec<u8>>>(&self, keys: impl IntoIterator<Item = K>) -> Lock<C> {
        self.make(Kind::Multi, keys.into_iter().map(Into::into).collect())
    }

    /// A permit of a semaphore of which all owners together may have `limit` (`LOCK.SEMAPHORE`), or more:
    /// [`Lock::permits`].
    pub fn semaphore(&self, key: impl Into<Vec<u8>>, limit: u32) -> Lock<C> {
        let mut lock = self.make(Kind::Semaphore, vec![key.into()]);
        lock.spec.limit = limit;
        lock
    }

    fn make(&self, kind: Kind, keys: Vec<Vec<u8>>) -> Lock<C> {
        Lock {
            core: self.core.clone(),
            spec: Spec::new(kind, keys),
            on_lost: None,
            #[cfg(feature = "sync")]
            cancel: None,
        }
    }
}

/// A lock that can be acquired, any number of times: each acquisition is an owner of its own.
///
/// So it is not reentrant: who holds it and acquires it again waits for itself.
#[must_use = "a lock does nothing until it is acquired"]
pub struct Lock<C> {
    pub(crate) core: Arc<C>,
    pub(crate) spec: Spec,
    pub(crate) on_lost: Option<OnLost>,
    #[cfg(feature = "sync")]
    pub(crate) cancel: Option<crate::sync::Cancel>,
}

impl<C> Clone for Lock<C> {
    fn clone(&self) -> Self {
        Self {
            core: self.core.clone(),
            spec: self.spec.clone(),
            on_lost: self.on_lost.clone(),
            #[cfg(feature = "sync")]
            cancel: self.cancel.clone(),
        }
    }
}

impl<C> fmt::Debug for Lock<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lock").field(&self.spec).finish()
    }
}

impl<C> Lock<C> {
    /// How long the others wait for a holder that died; 30 seconds by default. It is renewed at each third of it.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.spec.lease = lease.max(Duration::from_millis(1));
        self
    }

    /// Binds the hold to a connection: the server renews it, and releases it when the connection is lost.
    /// It is bound anew if that succeeds within a second, and else it is lost.
    pub fn session(mut self) -> Self {
        self.spec.session = true;
        self
    }

    /// Asks for a fencing token, a number that only grows for this lock. Only for `lock`, `fair` and `write`;
    /// the server refuses it for others.
    pub fn fenced(mut self) -> Self {
        self.spec.fenced = true;
        self
    }

    /// The grant, and each renewal, is to be acknowledged by so many replicas, each within so much time.
    pub fn replicas(mut self, replicas: u32, time: Duration) -> Self {
        self.spec.replicas = Some((replicas, time.max(Duration::from_millis(1))));
        self
    }

    /// Leaves the lease alone: the hold ends with it.
    pub fn no_renewal(mut self) -> Self {
        self.spec.renew = false;
        self
    }

    /// How many permits of a semaphore to take at once; 1 by default.
    pub fn permits(mut self, permits: u32) -> Self {
        self.spec.permits = permits;
        self
    }

    /// Has the server tell when the lock is lost (`LOCK.WATCH`, on a connection of its own for each key).
    /// Without it only a renewal or the clock notices.
    pub fn watched(mut self) -> Self {
        self.spec.watch = true;
        self
    }

    /// Calls this, once, when the lock is lost while it is held; never after a release has begun. The lock is
    /// [watched](Lock::watched) then. It is called on a thread or task that has others to serve too: be short.
    pub fn on_lost(mut self, tell: impl Fn() + Send + Sync + 'static) -> Self {
        self.on_lost = Some(Arc::new(tell));
        self.watched()
    }
}
