//! A lock with the user's settings, the same for both flavours.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::hold::OnLost;
use crate::spec::{Kind, Spec};
use crate::util::capped;

/// A factory of locks, with connections of its own to the servers of a client.
///
/// It is cheap to clone; all clones share the connections. [`sync::Locks`](crate::sync::Locks) and
/// [`aio::Locks`](crate::aio::Locks) show how to create one.
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
    /// A lock with one holder (`LOCK.ACQUIRE`). A newcomer may acquire it before the waiters if it is free.
    pub fn lock(&self, key: impl AsRef<[u8]>) -> Lock<C> {
        self.make(Kind::Lock, vec![key.as_ref().to_vec()])
    }

    /// The same lock, strictly first come, first served (`LOCK.FAIR`).
    ///
    /// A wait keeps its place in the queue when its connection is lost, and from one blocking call to the next
    /// ([`Settings::max_block`](crate::Settings::max_block)), if the server's `lock.fair-reserve` is not 0.
    pub fn fair(&self, key: impl AsRef<[u8]>) -> Lock<C> {
        self.make(Kind::Fair, vec![key.as_ref().to_vec()])
    }

    /// The read lock of a read-write lock, shared with other readers (`LOCK.RWREAD`).
    pub fn read(&self, key: impl AsRef<[u8]>) -> Lock<C> {
        self.make(Kind::Read, vec![key.as_ref().to_vec()])
    }

    /// The write lock of a read-write lock, held alone (`LOCK.RWWRITE`).
    pub fn write(&self, key: impl AsRef<[u8]>) -> Lock<C> {
        self.make(Kind::Write, vec![key.as_ref().to_vec()])
    }

    /// A multi-key lock: all of these keys, or none (`LOCK.MACQUIRE`). In a cluster, keys of several slots are acquired slot
    /// by slot, in the order of the slots, as a [`Combined`](crate::Combined) lock.
    pub fn multi<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) -> Lock<C> {
        self.make(Kind::Multi, keys.into_iter().map(|key| key.as_ref().to_vec()).collect())
    }

    /// A multi-key lock of which some keys are read, and shared with other readers, and some are written
    /// (`LOCK.MACQUIRE … MODES`). They are read-write locks, as those of [`read`](Self::read) and
    /// [`write`](Self::write). A key in both lists is written.
    ///
    /// For example, whoever changes a part of a tree reads the locks of the parts above.
    pub fn multi_modes<R: AsRef<[u8]>, W: AsRef<[u8]>>(&self, read: &[R], write: &[W]) -> Lock<C> {
        let written: Vec<Vec<u8>> = write.iter().map(|key| key.as_ref().to_vec()).collect();
        let mut keys: Vec<Vec<u8>> = read.iter().map(|key| key.as_ref().to_vec()).collect();
        keys.retain(|key| !written.contains(key));
        let reads = Some(keys.len());
        keys.extend(written);
        let mut lock = self.make(Kind::Multi, keys);
        lock.spec.reads = reads;
        lock
    }

    /// One permit of a semaphore, or more with [`Lock::permits`]. All owners together hold at most `limit` permits
    /// (`LOCK.SEMAPHORE`).
    pub fn semaphore(&self, key: impl AsRef<[u8]>, limit: u32) -> Lock<C> {
        let mut lock = self.make(Kind::Semaphore, vec![key.as_ref().to_vec()]);
        lock.spec.limit = limit;
        lock
    }

    pub(crate) fn make(&self, kind: Kind, keys: Vec<Vec<u8>>) -> Lock<C> {
        Lock {
            core: self.core.clone(),
            spec: Spec::new(kind, keys),
            on_lost: None,
            #[cfg(feature = "sync")]
            cancel: None,
        }
    }
}

/// A lock that can be acquired any number of times. Each acquisition has an owner of its own.
///
/// With an invalid option, each acquisition returns [`Error::InvalidOption`](crate::Error::InvalidOption).
///
/// So a holder that acquires it again waits for itself, unless it is `reentrant`, which only locks for threads can be.
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
        write!(f, "Lock({})", self.spec)
    }
}

impl<C> Lock<C> {
    /// How long the lock stays held after its holder died; 30 seconds by default, and at least a millisecond. It is renewed
    /// after each third of it.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.spec.lease = capped(lease);
        self
    }

    /// Binds the hold to a connection: the server renews it, and releases it when the connection is lost.
    /// It is bound to a new connection if that is possible within a second; otherwise it is lost. A second is the default
    /// of `lock.session-grace`: with a shorter one, the server may release the hold before `is_lost` returns true.
    pub fn session(mut self) -> Self {
        self.spec.session = true;
        self
    }

    /// Requests a fencing token, a number that only increases for this lock. Only for `lock`, `fair` and `write`.
    pub fn fenced(mut self) -> Self {
        self.spec.fenced = true;
        self
    }

    /// The grant and each renewal must be acknowledged by this number of replicas, each within `time`.
    pub fn replicas(mut self, replicas: u32, time: Duration) -> Self {
        self.spec.replicas = Some((replicas, capped(time)));
        self
    }

    /// Turns renewal off: the hold ends when its lease expires.
    pub fn no_renewal(mut self) -> Self {
        self.spec.renew = false;
        self
    }

    /// How many permits of a semaphore to acquire at once; 1 by default.
    pub fn permits(mut self, permits: u32) -> Self {
        self.spec.permits = Some(permits);
        self
    }

    /// Calls this function once when the lock is lost; never after a release has begun. The server then notifies the
    /// client (`LOCK.WATCH`, on one connection for each key); otherwise a loss is noticed by a renewal or by the clock.
    /// The function should be short: its thread or task may also report other losses.
    pub fn on_lost(mut self, call: impl Fn() + Send + Sync + 'static) -> Self {
        self.on_lost = Some(Arc::new(call));
        self.spec.watch = true;
        self
    }
}
