//! What the acquisitions of a factory share, the same for both flavours: what `close` ends.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use redis::{ErrorKind, RedisResult};

use crate::hold::Hold;
use crate::nodes::Nodes;
use crate::spec::{new_owner, Spec};
use crate::util::locked;
use crate::{Error, Settings};

/// How often `close` and `settle` check whether everything has ended.
pub(crate) const SETTLING: Duration = Duration::from_millis(2);

pub(crate) struct Shared {
    pub max_block: Duration,
    pub connect_timeout: Duration,
    /// Whether a connection has ever succeeded.
    pub connected: Arc<AtomicBool>,
    is_closed: AtomicBool,
    state: Mutex<State>,
}

/// What a factory has in use: waits and holds by their owners, and the number of clean-ups.
#[derive(Default)]
struct State {
    waits: HashMap<String, Arc<Waiting>>,
    holds: HashMap<String, Arc<Hold>>,
    clearing: usize,
    engaged: usize,
}

/// An acquisition that has not ended.
#[cfg_attr(not(feature = "sync"), allow(dead_code))] // `wake`
pub(crate) struct Waiting {
    pub spec: Arc<Spec>,
    pub owner: String,
    is_sent: AtomicBool,
    /// Counted as a clean-up until everything that handles it has ended.
    given_up: OnceLock<Clearing>,
    /// Wakes the caller, if a thread waits for it.
    wake: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

#[cfg_attr(not(feature = "sync"), allow(dead_code))]
impl Waiting {
    /// From now on nothing is sent.
    pub fn give_up(&self, counted: Clearing) {
        let _ = self.given_up.set(counted);
    }

    pub fn is_given_up(&self) -> bool {
        self.given_up.get().is_some()
    }

    /// What wakes the caller, if a thread waits for it.
    pub fn wakes(&self, wake: impl Fn() + Send + Sync + 'static) {
        let _ = self.wake.set(Box::new(wake));
    }

    /// The wait is to end.
    pub fn wake(&self) {
        self.wake.get().into_iter().for_each(|wake| wake());
    }

    /// Whether anything was sent.
    pub fn is_sent(&self) -> bool {
        self.is_sent.load(Ordering::SeqCst)
    }
}

/// A clean-up that has not ended.
pub(crate) struct Clearing(Arc<Shared>);

impl Drop for Clearing {
    fn drop(&mut self) {
        locked(&self.0.state).clearing -= 1;
    }
}

/// What must end when the factory is closed: a consumer of a delayed queue, or an acquisition on several servers.
pub(crate) struct Engaged(Arc<Shared>);

impl Drop for Engaged {
    fn drop(&mut self) {
        locked(&self.0.state).engaged -= 1;
    }
}

impl Shared {
    /// The parts of the settings.
    pub fn new(settings: Settings) -> (Arc<Self>, Nodes) {
        let Settings { nodes, max_block, connect_timeout } = settings;
        let (connected, is_closed, state) = Default::default();
        (Arc::new(Self { max_block, connect_timeout, connected, is_closed, state }), nodes)
    }

    /// How long one command about this lock blocks at most.
    pub fn max_block(&self, spec: &Spec) -> Duration {
        self.max_block.min(spec.max_block)
    }

    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    /// Refuses invalid options, and everything if it was closed.
    pub fn check(&self, spec: &Spec) -> Result<(), Error> {
        spec.check()?;
        if self.is_closed() {
            return Err(spec.closed());
        }
        Ok(())
    }

    /// Begins an acquisition, before anything is sent.
    pub fn begin(&self, spec: &Spec) -> Result<Arc<Waiting>, Error> {
        self.check(spec)?;
        let (is_sent, given_up, wake) = Default::default();
        let waiting = Arc::new(Waiting { spec: Arc::new(spec.clone()), owner: new_owner(), is_sent, given_up, wake });
        let mut state = locked(&self.state);
        if self.is_closed() {
            return Err(spec.closed());
        }
        state.waits.insert(waiting.owner.clone(), waiting.clone());
        Ok(waiting)
    }

    /// Called before a request is sent; it must not be if it was given up, or the factory closed.
    pub fn sends(&self, waiting: &Waiting) -> RedisResult<()> {
        waiting.is_sent.store(true, Ordering::SeqCst);
        if self.is_closed() || waiting.is_given_up() {
            return Err((ErrorKind::InvalidClientConfig, "the request was given up").into());
        }
        Ok(())
    }

    /// Ends an acquisition.
    pub fn end(&self, owner: &str) {
        let ended = locked(&self.state).waits.remove(owner);
        drop(ended); // which may count it out, and needs the lock
    }

    /// Whether something of this acquisition may still be on the server, or arrive there.
    pub fn may_wait(&self, waiting: &Waiting) -> bool {
        waiting.is_sent() && locked(&self.state).waits.contains_key(&waiting.owner)
    }

    /// Ends an acquisition with a hold. Returns false if the factory has been closed.
    pub fn add(&self, hold: &Arc<Hold>) -> bool {
        let mut state = locked(&self.state);
        if self.is_closed() {
            return false;
        }
        let ended = state.waits.remove(&hold.owner);
        state.holds.insert(hold.owner.clone(), hold.clone());
        drop(state);
        drop(ended);
        true
    }

    /// A hold was released, or cannot be.
    pub fn remove(&self, owner: &str) {
        locked(&self.state).holds.remove(owner);
    }

    /// Whether the release of this hold has begun, and not ended.
    pub fn is_releasing(&self, hold: &Hold) -> bool {
        !hold.is_held() && locked(&self.state).holds.contains_key(&hold.owner)
    }

    /// What is to be ended, the first time.
    pub fn close(&self) -> (Vec<Arc<Waiting>>, Vec<Arc<Hold>>) {
        let state = locked(&self.state);
        if self.is_closed.swap(true, Ordering::SeqCst) {
            return Default::default();
        }
        let mut holds: Vec<_> = state.holds.values().cloned().collect();
        holds.sort_by_key(|hold| hold.is_spread()); // the loss of these is reported, which may last
        (state.waits.values().cloned().collect(), holds)
    }

    /// Counts a clean-up until the result is dropped.
    pub fn clearing(self: &Arc<Self>) -> Clearing {
        locked(&self.state).clearing += 1;
        Clearing(self.clone())
    }

    /// Counts what must end when the factory is closed, until the result is dropped.
    pub fn engage(self: &Arc<Self>, spec: &Spec) -> Result<Engaged, Error> {
        self.check(spec)?;
        let mut state = locked(&self.state);
        if self.is_closed() {
            return Err(spec.closed());
        }
        state.engaged += 1;
        drop(state);
        Ok(Engaged(self.clone()))
    }

    /// Whether no clean-up is in progress; if the factory has been closed, no release either, and nothing engaged.
    pub fn is_settled(&self) -> bool {
        let state = locked(&self.state);
        state.clearing == 0 && (!self.is_closed() || state.holds.is_empty() && state.engaged == 0)
    }
}
