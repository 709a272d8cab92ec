//! The state of a hold from its grant to its end, the same for both flavours.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use redis::{RedisResult, Value};

use crate::spec::{Spec, REPORTED};
use crate::util::{again, is_not_held, left, locked, SHORT, SLACK};

/// The function that is called when a lock is lost.
pub(crate) type OnLost = Arc<dyn Fn() + Send + Sync>;

const EXPIRED: &str = "its lease expired";

const HELD: u8 = 0;
const LOST: u8 = 1;
const RELEASED: u8 = 2;

/// How long a session's hold is assumed to exist after its connection was lost: the default of `lock.session-grace`.
pub(crate) const GRACE: Duration = Duration::from_secs(1);

/// What a watch is to do next.
pub(crate) enum Watched {
    /// There was no loss: continue.
    Still,
    /// The connection was lost: continue after a pause, on another one.
    Again,
    /// The server refuses to watch: continue after a third of the lease. Until then only the clock can notice a loss.
    Refused,
    /// There is nothing to watch any more: end. With true, nothing is bound to the connection any more.
    Ended(bool),
}

/// One hold.
pub(crate) struct Hold {
    pub spec: Arc<Spec>,
    pub owner: String,
    pub token: Option<u64>,
    /// Whether an earlier request of this owner may still arrive at the server.
    pub unsure: bool,
    state: AtomicU8,
    /// When it ends if it is not renewed; for a session, if the server does not confirm it.
    until: Mutex<Instant>,
    /// Why it is lost.
    why: Mutex<&'static str>,
    on_lost: Option<OnLost>,
}

impl Hold {
    /// A hold that was just granted to a request that was sent at `sent`. `granted` is the reply: the fencing token if
    /// one was requested.
    pub fn new(
        spec: Arc<Spec>,
        owner: String,
        (granted, sent): (i64, Instant),
        unsure: bool,
        on_lost: Option<OnLost>,
    ) -> Self {
        // The lease began at the grant, which may be some time before the reply.
        let until = Instant::now() + spec.lease - spec.lease.min(sent.elapsed()).min(spec.lease / 10);
        let token = spec.fenced.then_some(granted as u64);
        Self {
            spec,
            owner,
            token,
            unsure,
            state: AtomicU8::new(HELD),
            until: Mutex::new(until),
            why: Mutex::new(EXPIRED),
            on_lost,
        }
    }

    /// Whether it is neither lost nor being released.
    pub fn is_held(&self) -> bool {
        self.state.load(Ordering::Acquire) == HELD
    }

    /// Whether it is known to be lost, by a report of the server or by the clock.
    pub fn is_lost(&self) -> bool {
        match self.state.load(Ordering::Acquire) {
            HELD => self.is_expired(),
            state => state == LOST,
        }
    }

    /// Whether its lease has expired by the local clock.
    pub fn is_expired(&self) -> bool {
        Instant::now() >= self.until()
    }

    /// When it ends, as far as is known.
    pub fn until(&self) -> Instant {
        *locked(&self.until)
    }

    /// How much of the lease is left.
    pub fn left(&self) -> Duration {
        left(self.until())
    }

    /// When it is to be renewed first; `None` if it is not.
    pub fn first_renewal(&self) -> Option<Instant> {
        let is_renewed = self.spec.renew && !self.spec.session;
        is_renewed.then(|| (self.until() - self.spec.lease / 3 * 2).max(Instant::now()))
    }

    /// By when a short command about it must have a reply.
    pub fn short(&self) -> Instant {
        self.until().clamp(Instant::now() + Duration::from_millis(1), Instant::now() + SHORT)
    }

    /// The server has confirmed the hold: it was held at `then`, with a full lease.
    pub fn confirmed(&self, then: Instant) {
        *locked(&self.until) = then + self.spec.lease;
    }

    /// When a failed renewal is repeated: soon, and not after the end of the lease.
    pub fn next_try(&self) -> Instant {
        let soon = Instant::now() + (self.spec.lease / 20).min(Duration::from_millis(500));
        soon.min(self.until())
    }

    /// A session's connection was lost: the hold is assumed to exist for the grace from now on.
    pub fn unbound(&self) {
        let mut until = locked(&self.until);
        *until = (*until).min(Instant::now() + GRACE);
    }

    /// How long one blocking call of a watch lasts, and how long to wait for its reply. For a session both are short,
    /// because the watch is what notices that the server does not respond.
    pub fn watch_times(&self, max_block: Duration) -> (Duration, Duration) {
        let third = (self.spec.lease / 3).max(Duration::from_millis(1));
        if self.spec.session {
            (max_block.min(third), max_block.min(third) + SLACK.min(third))
        } else {
            (max_block, max_block + SLACK)
        }
    }

    /// Records the reply to a watch that began at `since`, with this `block`.
    pub fn watched(&self, reply: RedisResult<Value>, since: Instant, block: Duration) -> Watched {
        match reply {
            Ok(Value::Nil) => {
                if self.spec.session {
                    self.confirmed(since + block);
                }
                return Watched::Still;
            }
            Ok(_) => self.lose(REPORTED),
            Err(error) if again(&error) => {
                if self.spec.session {
                    self.unbound();
                }
                return Watched::Again;
            }
            Err(error) if is_not_held(&error) => self.lose(REPORTED),
            // The key has another type.
            Err(error) if error.code() == Some("WRONGTYPE") => {
                self.lose(REPORTED);
                return Watched::Ended(false);
            }
            Err(_) => return Watched::Refused,
        }
        // The other keys of a session are still bound to the connection.
        Watched::Ended(!self.spec.session || self.spec.keys.len() == 1)
    }

    /// How long to wait until a refused watch is tried again, in steps that notice the end of the hold.
    pub fn refused(&self) -> impl Iterator<Item = Duration> + '_ {
        let end = Instant::now() + self.spec.lease / 3;
        std::iter::from_fn(move || {
            let step = left(end).min(Duration::from_millis(200));
            (self.is_held() && !step.is_zero()).then_some(step)
        })
    }

    /// The lease has expired by the local clock.
    pub fn expire(&self) {
        self.lose(EXPIRED);
    }

    /// The server has reported that it is not held.
    pub fn reported(&self) {
        self.lose(REPORTED);
    }

    /// Records the loss and reports it, once, unless it is being released already.
    fn lose(&self, why: &'static str) {
        let mut reason = locked(&self.why);
        let first = self.state.compare_exchange(HELD, LOST, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if first {
            *reason = why;
        }
        drop(reason);
        if let (true, Some(call)) = (first, &self.on_lost) {
            // A panic of the user's callback must not end the renewals of other locks.
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| call())) {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
                log::error!("{}: error in the callback for its loss: {text}", self.spec);
            }
        }
    }

    /// Called when the release begins: from now on no loss is reported. Returns whether it can be released.
    pub fn end(&self) -> Ended {
        let is_lost = self.is_lost();
        match self.state.swap(RELEASED, Ordering::AcqRel) {
            RELEASED => Ended::Before,
            _ if is_lost => Ended::Lost(*locked(&self.why)),
            _ => Ended::Held,
        }
    }
}

/// What the guards of both flavours have in common.
macro_rules! accessors {
    () => {
        impl Guard {
            /// The name of the owner, `host:pid:random`.
            pub fn owner(&self) -> &str {
                &self.hold.owner
            }

            /// The lock's key, or keys.
            pub fn keys(&self) -> &[Vec<u8>] {
                &self.hold.spec.keys
            }

            /// The fencing token, if the lock is [fenced](crate::Lock::fenced).
            pub fn token(&self) -> Option<u64> {
                self.hold.token
            }

            /// How many permits of a semaphore it holds; 1 for a lock.
            pub fn permits(&self) -> u32 {
                self.hold.spec.permits()
            }

            /// Whether the lock is known to be lost: the server reported it, or the hold was not confirmed for as long as its
            /// lease.
            pub fn is_lost(&self) -> bool {
                self.hold.is_lost()
            }
        }

        impl std::fmt::Debug for Guard {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut shown = f.debug_struct("Guard");
                shown.field("owner", &self.owner()).field("is_lost", &self.is_lost()).finish_non_exhaustive()
            }
        }
    };
}
pub(crate) use accessors;

/// What a hold was when its release began.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Held,
    /// It was lost, for this reason.
    Lost(&'static str),
    /// It was released before.
    Before,
}

impl Ended {
    /// What a release returns after its reply.
    pub fn result(self, spec: &Spec, replied: crate::Result<()>) -> crate::Result<()> {
        match self {
            Self::Held => replied,
            // After a reported loss the release must not succeed, whatever the server replied.
            Self::Lost(why) => match replied {
                Ok(()) | Err(crate::Error::NotHeld { .. }) => Err(spec.not_held(why)),
                error => error,
            },
            Self::Before => Err(spec.not_held("it was released before")),
        }
    }
}
