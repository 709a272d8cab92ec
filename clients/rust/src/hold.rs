//! What is known of a hold between its grant and its end, whichever flavour it is of.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use redis::{RedisResult, Value};

use crate::spec::Spec;
use crate::util::{again, is_not_held, locked, SLACK};

/// What is called when a lock is lost.
pub(crate) type OnLost = Arc<dyn Fn() + Send + Sync>;

const HELD: u8 = 0;
const LOST: u8 = 1;
const OVER: u8 = 2;

/// How long a session's hold may still be believed in after its connection broke: `lock.session-grace` by default.
pub(crate) const GRACE: Duration = Duration::from_secs(1);

/// What a watch is to do next.
pub(crate) enum Watched {
    /// It has heard of no loss: go on.
    Still,
    /// It has lost its connection: go on after a pause, on another.
    Again,
    /// There is nothing to watch any more.
    Over,
}

/// One hold, from its grant on.
pub(crate) struct Hold {
    pub spec: Arc<Spec>,
    pub owner: String,
    pub token: Option<u64>,
    /// Whether an earlier request of this owner may still be under way.
    pub unsure: bool,
    state: AtomicU8,
    /// When it is over unless it is renewed; a session's, unless its server is heard of.
    until: Mutex<Instant>,
    on_lost: Option<OnLost>,
}

impl Hold {
    /// A hold that was just granted. `granted` is what the server replied: a token if it was asked for one.
    pub fn new(spec: Arc<Spec>, owner: String, granted: i64, unsure: bool, on_lost: Option<OnLost>) -> Self {
        // The lease runs from the grant, of which only the reply is known; the first renewal is early for that reason.
        let until = Instant::now() + spec.lease;
        let token = spec.fenced.then_some(granted as u64);
        Self { spec, owner, token, unsure, state: AtomicU8::new(HELD), until: Mutex::new(until), on_lost }
    }

    /// Whether it is neither lost nor being released.
    pub fn is_held(&self) -> bool {
        self.state.load(Ordering::Acquire) == HELD
    }

    /// Whether it is known to be lost, by the server's word or by the clock.
    pub fn is_lost(&self) -> bool {
        match self.state.load(Ordering::Acquire) {
            HELD => self.is_expired(),
            state => state == LOST,
        }
    }

    /// Whether its lease is over by our clock.
    pub fn is_expired(&self) -> bool {
        Instant::now() >= self.until()
    }

    /// When it is over, as far as is known.
    pub fn until(&self) -> Instant {
        *locked(&self.until)
    }

    /// How much of the lease is left.
    pub fn left(&self) -> Duration {
        self.until().saturating_duration_since(Instant::now())
    }

    /// The server has confirmed the hold: it was held at `then`, with a whole lease.
    pub fn confirmed(&self, then: Instant) {
        *locked(&self.until) = then + self.spec.lease;
    }

    /// When a renewal that has failed is to be tried again: soon, and not after the lease.
    pub fn next_try(&self) -> Instant {
        let soon = Instant::now() + (self.spec.lease / 20).min(Duration::from_millis(500));
        soon.min(self.until())
    }

    /// A session's connection broke: the hold is believed in for the grace from then on.
    pub fn unbound(&self) {
        let mut until = locked(&self.until);
        *until = (*until).min(Instant::now() + GRACE);
    }

    /// How long one request of a watch waits, and how long it is listened to. A session's is short, as it is what
    /// notices that the server is silent.
    pub fn watch_times(&self, max_block: Duration) -> (Duration, Duration) {
        let third = (self.spec.lease / 3).max(Duration::from_millis(1));
        if self.spec.session {
            (max_block.min(third), max_block.min(third) + SLACK.min(third))
        } else {
            (max_block, max_block + SLACK)
        }
    }

    /// Records the reply to a watch that began at `since`, with this `block`.
    pub fn watched(&self, said: RedisResult<Value>, since: Instant, block: Duration) -> Watched {
        match said {
            Ok(Value::Nil) => {
                if self.spec.session {
                    self.confirmed(since + block);
                }
                return Watched::Still;
            }
            Ok(_) => self.lose(),
            Err(error) if again(&error) => {
                if self.spec.session {
                    self.unbound();
                }
                return Watched::Again;
            }
            // Something else stands in the lock's place; or a session could not be bound again.
            Err(error) if is_not_held(&error) || error.code() == Some("WRONGTYPE") => self.lose(),
            // The server refuses to be asked. What is left is the clock.
            Err(_) => {}
        }
        Watched::Over
    }

    /// It is lost: tells so, once, unless it is being released already.
    pub fn lose(&self) {
        let first = self.state.compare_exchange(HELD, LOST, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if let (true, Some(tell)) = (first, &self.on_lost) {
            // A panic of the caller's is not to end the renewals of other locks.
            let _ = catch_unwind(AssertUnwindSafe(|| tell()));
        }
    }

    /// It is being released: from now on nobody is told of a loss. Returns whether it was lost already.
    pub fn end(&self) -> bool {
        let is_lost = self.is_lost();
        self.state.store(OVER, Ordering::Release);
        is_lost
    }
}
