//! The state of a hold from its grant to its end, the same for both flavours.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use redis::{RedisError, RedisResult, Value};

use crate::agenda::Id;
use crate::redlock::drift;
use crate::spec::{Spec, REPORTED};
use crate::util::{again, is_not_held, left, locked, SHORT, SLACK};

/// The function that is called when a lock is lost.
pub(crate) type OnLost = Arc<dyn Fn() + Send + Sync>;

const EXPIRED: &str = "its lease expired";
const RELEASED: &str = "it was released before";
const CLOSED: &str = "one of its factories was closed";

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
    /// Whether it is a hold on several servers, of which each factory has one.
    pub is_shared: bool,
    /// What renews it, or reports its end.
    pub job: OnceLock<Id>,
    state: Mutex<State>,
    on_lost: Option<OnLost>,
}

struct State {
    phase: Phase,
    /// Of the last renewal with another one, if there was one.
    lease: Duration,
    /// Renewals follow each other, so that the server executes them in this order.
    is_renewing: bool,
    /// More than one if its thread has entered the lock again.
    #[cfg_attr(not(feature = "sync"), allow(dead_code))]
    guards: usize,
    /// When it ends if it is not renewed; for a session, if the server does not confirm it.
    until: Instant,
    /// Why it is lost, if it is.
    why: &'static str,
    /// Whether its factory was closed, which released it as far as that was possible.
    is_closed: bool,
    is_warned: bool,
}

#[derive(PartialEq, Eq)]
enum Phase {
    Held,
    Lost,
    Released,
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
        let (phase, lease, why) = (Phase::Held, spec.lease, EXPIRED);
        let (is_renewing, is_closed, is_warned) = Default::default();
        let state = Mutex::new(State { phase, lease, is_renewing, guards: 1, until, why, is_closed, is_warned });
        Self { spec, owner, token, unsure, is_shared: false, job: OnceLock::new(), state, on_lost }
    }

    /// The same as a hold on several servers.
    pub fn shared(self) -> Self {
        Self { is_shared: true, ..self }
    }

    /// How long it is held by the local clock, with this lease.
    fn length(&self, lease: Duration) -> Duration {
        if self.is_shared {
            lease.saturating_sub(drift(lease))
        } else {
            lease
        }
    }

    /// Whether it is neither lost nor being released.
    pub fn is_held(&self) -> bool {
        locked(&self.state).phase == Phase::Held
    }

    /// Whether it is known to be lost, by a report of the server or by the clock.
    pub fn is_lost(&self) -> bool {
        let state = locked(&self.state);
        state.phase == Phase::Lost || state.phase == Phase::Held && left(state.until).is_zero()
    }

    /// Refuses what needs a hold that is not lost.
    pub fn check(&self) -> crate::Result<()> {
        locked(&self.state).check().map_err(|why| self.spec.not_held(why))
    }

    #[cfg(feature = "sync")]
    pub fn has_guards(&self) -> bool {
        locked(&self.state).guards > 0
    }

    /// Another guard of it: `None` if it has none any more.
    #[cfg(feature = "sync")]
    pub fn enter(&self) -> Option<crate::Result<()>> {
        let mut state = locked(&self.state);
        if state.guards == 0 {
            return None;
        }
        let entered = state.check().map(|()| state.guards += 1);
        Some(entered.map_err(|why| self.spec.not_held(why)))
    }

    /// One of its guards ends. `None`: it was the last one, so the lock is to be released.
    #[cfg(feature = "sync")]
    pub fn leave(&self) -> Option<crate::Result<()>> {
        let mut state = locked(&self.state);
        state.guards -= 1;
        (state.guards > 0).then(|| state.check().map_err(|why| self.spec.not_held(why)))
    }

    /// Whether its lease has expired by the local clock.
    pub fn is_expired(&self) -> bool {
        Instant::now() >= self.until()
    }

    /// When it ends, as far as is known.
    pub fn until(&self) -> Instant {
        locked(&self.state).until
    }

    pub fn lease(&self) -> Duration {
        locked(&self.state).lease
    }

    /// How much of the lease is left.
    pub fn left(&self) -> Duration {
        left(self.until())
    }

    /// When it is to be renewed next; `None` if it is not.
    pub fn next_renewal(&self) -> Option<Instant> {
        let is_renewed = self.spec.renew && !self.spec.session;
        let now = Instant::now();
        is_renewed.then(|| self.until().checked_sub(self.lease() / 3 * 2).map_or(now, |due| due.max(now)))
    }

    /// When it is to be renewed, or else when it ends.
    pub fn due(&self) -> Instant {
        self.next_renewal().unwrap_or_else(|| self.until())
    }

    /// Begins a renewal, if none is in progress.
    pub fn begin_renewal(&self) -> Option<Renewing<'_>> {
        let mut state = locked(&self.state);
        let was_renewing = std::mem::replace(&mut state.is_renewing, true);
        (!was_renewing).then(|| Renewing { hold: self, before: None })
    }

    /// By when a short command about it must have a reply.
    pub fn short(&self) -> Instant {
        self.until().clamp(Instant::now() + Duration::from_millis(1), Instant::now() + SHORT)
    }

    /// The server has confirmed the hold: it was held at `then`, with a full lease.
    pub fn confirmed(&self, then: Instant) {
        let mut state = locked(&self.state);
        state.until = then + self.length(state.lease);
    }

    /// When a failed renewal is repeated: soon, and not after the end of the lease.
    pub fn next_try(&self) -> Instant {
        let soon = Instant::now() + (self.lease() / 20).min(Duration::from_millis(500));
        soon.min(self.until())
    }

    /// A session's connection was lost: the hold is assumed to exist for the grace from now on.
    pub fn unbound(&self) {
        let mut state = locked(&self.state);
        state.until = state.until.min(Instant::now() + GRACE);
    }

    /// How long one blocking call of a watch lasts, and how long to wait for its reply. For a session both are short,
    /// because the watch is what notices that the server does not respond.
    pub fn watch_times(&self, max_block: Duration) -> (Duration, Duration) {
        let third = (self.lease() / 3).max(Duration::from_millis(1));
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
                // Without a reply, nothing was closed yet.
                if self.spec.session && !error.is_timeout() {
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
            Err(error) => {
                self.warn("watched", &error);
                return Watched::Refused;
            }
        }
        // The other keys of a session are still bound to the connection.
        Watched::Ended(!self.spec.session || self.spec.keys.len() == 1)
    }

    /// How long to wait until a refused watch is tried again, in steps that notice the end of the hold.
    pub fn refused(&self) -> impl Iterator<Item = Duration> + '_ {
        let end = Instant::now() + self.lease() / 3;
        std::iter::from_fn(move || {
            let step = left(end).min(Duration::from_millis(200));
            (self.is_held() && !step.is_zero()).then_some(step)
        })
    }

    /// Warns, once, that the server refuses something.
    pub fn warn(&self, what: &str, error: &RedisError) {
        if !std::mem::replace(&mut locked(&self.state).is_warned, true) {
            log::warn!("{} cannot be {what}: {error}", self.spec);
        }
    }

    /// Reports the loss if the lease has expired.
    pub fn expire(&self) {
        if self.is_expired() {
            let why = locked(&self.state).why;
            self.lose(why);
        }
    }

    /// The server has replied that it is not held: it counts as expired.
    pub fn refuted(&self) {
        let mut state = locked(&self.state);
        if state.phase == Phase::Held {
            (state.until, state.why) = (Instant::now(), REPORTED);
        }
    }

    /// The server has replied to the program itself that it is not held.
    pub fn lost(&self) {
        self.lose(REPORTED);
    }

    /// Whether other factories have a part in it: it is on several servers, or one of several locks.
    pub fn is_spread(&self) -> bool {
        self.is_shared || self.spec.is_spread
    }

    /// One of its factories was closed. The result is for the release there.
    pub fn closed(&self) -> Ended {
        locked(&self.state).is_closed = true;
        self.lose(CLOSED);
        Ended::Lost(CLOSED)
    }

    /// Records the loss and reports it, once, unless it is being released already.
    fn lose(&self, why: &'static str) {
        let mut state = locked(&self.state);
        if state.phase != Phase::Held {
            return;
        }
        (state.phase, state.why) = (Phase::Lost, why);
        drop(state);
        // A panic of the user's callback must not end the renewals of other locks.
        let called = catch_unwind(AssertUnwindSafe(|| self.on_lost.iter().for_each(|call| call())));
        if let Err(panic) = called {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
            log::error!("{}: error in the callback for its loss: {text}", self.spec);
        }
    }

    /// Called when the release begins: from now on no loss is reported. Returns whether it can be released.
    pub fn end(&self) -> Ended {
        let mut state = locked(&self.state);
        match std::mem::replace(&mut state.phase, Phase::Released) {
            Phase::Released => Ended::Before(RELEASED),
            Phase::Lost if state.is_closed => Ended::Before(state.why),
            Phase::Held if !left(state.until).is_zero() => Ended::Held,
            _ => Ended::Lost(state.why),
        }
    }
}

impl State {
    /// Why it is not held, if it is not.
    fn check(&self) -> Result<(), &'static str> {
        match self.phase {
            Phase::Held if left(self.until).is_zero() => Err(self.why),
            Phase::Held => Ok(()),
            Phase::Lost => Err(self.why),
            Phase::Released => Err(RELEASED),
        }
    }
}

/// A renewal in progress; it ends when this is dropped.
pub(crate) struct Renewing<'a> {
    hold: &'a Hold,
    /// The lease and its end before a shorter one.
    before: Option<(Duration, Instant)>,
}

impl Renewing<'_> {
    /// A renewal with this lease is about to be sent. A shorter one counts from now on, because its reply may get lost.
    pub fn sends(&mut self, lease: Duration) {
        let mut state = locked(&self.hold.state);
        if lease < state.lease {
            self.before = Some((state.lease, state.until));
            (state.lease, state.until) = (lease, state.until.min(Instant::now() + self.hold.length(lease)));
        }
    }

    /// The renewal that was sent `then` with this lease was executed.
    pub fn confirmed(&self, then: Instant, lease: Duration) {
        locked(&self.hold.state).lease = lease;
        self.hold.confirmed(then);
    }

    /// It was certainly not executed.
    pub fn refused(&self) {
        if let Some((lease, until)) = self.before {
            let mut state = locked(&self.hold.state);
            (state.lease, state.until) = (lease, until);
        }
    }
}

impl Drop for Renewing<'_> {
    fn drop(&mut self) {
        locked(&self.hold.state).is_renewing = false;
    }
}

/// What the holds of both flavours show.
macro_rules! accessors {
    () => {
        impl Held {
            /// The name of the owner, `host:pid:random`.
            pub fn owner(&self) -> &str {
                &self.hold.owner
            }

            /// The lock's key, or keys.
            pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
                self.hold.spec.keys.iter().map(Vec::as_slice)
            }

            /// The fencing token, if the lock is [fenced](crate::Lock::fenced).
            pub fn token(&self) -> Option<u64> {
                self.hold.token
            }

            /// How many permits of a semaphore it holds; 1 for a lock.
            pub fn permits(&self) -> u32 {
                self.hold.spec.permits()
            }

            /// Whether it is known to be lost.
            pub fn is_lost(&self) -> bool {
                self.hold.is_lost()
            }

            /// Whether it is neither lost nor released.
            pub(super) fn is_held(&self) -> bool {
                self.hold.check().is_ok()
            }
        }

        impl std::fmt::Debug for Held {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut shown = f.debug_struct("Held");
                shown.field("owner", &self.owner()).field("is_lost", &self.is_lost()).finish_non_exhaustive()
            }
        }
    };
}
pub(crate) use accessors;

/// What a hold was when its release began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Held,
    /// It was lost, for this reason.
    Lost(&'static str),
    /// It was released before: by the program, or by closing its factory after it was lost for this reason.
    Before(&'static str),
}

impl Ended {
    pub fn is_before(self) -> bool {
        matches!(self, Self::Before(_))
    }

    /// What a release returns after its reply.
    pub fn result(self, spec: &Spec, replied: crate::Result<()>) -> crate::Result<()> {
        match self {
            Self::Held => replied,
            // The release must not succeed, whatever the server replied, if it did.
            Self::Lost(why) | Self::Before(why) => Err(spec.not_held(why)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::spec::Kind;

    #[test]
    fn a_loss_is_reported_once_and_not_after_a_release() {
        let losses = Arc::<AtomicUsize>::default();
        let hold = || {
            let (counts, spec) = (losses.clone(), Arc::new(Spec::new(Kind::Lock, vec![b"a".to_vec()])));
            let on_lost: OnLost = Arc::new(move || {
                counts.fetch_add(1, Ordering::SeqCst);
            });
            Hold::new(spec, String::new(), (1, Instant::now()), false, Some(on_lost))
        };
        let lost = hold();
        lost.expire();
        assert!(lost.is_held() && !lost.is_lost());
        lost.refuted();
        assert!(lost.is_lost() && lost.is_held(), "not reported yet");
        lost.expire();
        lost.expire();
        assert!(lost.is_lost() && !lost.is_held());
        assert_eq!((lost.end(), lost.end()), (Ended::Lost(REPORTED), Ended::Before(RELEASED)));
        assert_eq!(losses.load(Ordering::SeqCst), 1);

        let released = hold();
        assert_eq!(released.end(), Ended::Held);
        released.refuted(); // by a renewal that was executed after the release
        released.expire();
        assert!(!released.is_expired() && !released.is_lost());
        assert_eq!(losses.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_shorter_lease_on_several_servers_ends_earlier_here() {
        let spec = Arc::new(Spec::new(Kind::Lock, vec![b"a".to_vec()]));
        let hold = Hold::new(spec, String::new(), (1, Instant::now()), false, None).shared();
        hold.begin_renewal().unwrap().sends(Duration::from_secs(10));
        assert!(hold.left() <= Duration::from_secs(10) - drift(Duration::from_secs(10)));
        hold.confirmed(Instant::now());
        assert!(hold.left() <= Duration::from_secs(10) - drift(Duration::from_secs(10)));
        assert!(hold.left() > Duration::from_secs(9));
    }
}
