//! Several locks at once.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, FromRedisValue};

use super::guard::give_back;
use super::{Cancel, Core, Guard, Held, Lock};
use crate::combined::{ordered, worse, Loss, Lost};
use crate::hold::OnLost;
use crate::util::{capped, Wait};
use crate::{Error, Result};

/// Several locks of such factories.
pub type Combined = crate::Combined<Core>;

/// Locks that are acquired together: all of them or none.
///
/// ```no_run
/// # let client = redis::Client::open("redis://127.0.0.1/").unwrap();
/// # let other = redis::Client::open("redis://127.0.0.2/").unwrap();
/// use lock_so::sync::{combine, Locks};
///
/// let (here, there) = (Locks::new(&client), Locks::new(&other));
/// let guard = combine([here.lock("stock"), there.write("orders")]).lock()?;
/// guard.release()?;
/// # Ok::<(), lock_so::Error>(())
/// ```
pub fn combine(locks: impl IntoIterator<Item = Lock>) -> Combined {
    Combined { members: locks.into_iter().collect(), on_lost: None }
}

impl Combined {
    /// [`Cancel::cancel`] ends the waits for these locks, as that of each of them does.
    pub fn cancelled_by(mut self, cancel: &Cancel) -> Self {
        self.members.iter_mut().for_each(|member| member.cancel = Some(cancel.clone()));
        self
    }
}

/// One acquisition of several locks, which ends if one of them is lost.
struct Round {
    loss: Arc<Loss>,
    on_lost: Option<OnLost>,
    /// Those of the members: each ends the whole acquisition.
    cancels: Vec<Cancel>,
    interrupted: Cancel,
}

impl Round {
    fn new(members: &[Lock], on_lost: Option<&OnLost>) -> Self {
        let cancels: Vec<Cancel> = members.iter().filter_map(|member| member.cancel.clone()).collect();
        let interrupted = Cancel::child(&cancels);
        Self { loss: Arc::default(), on_lost: on_lost.cloned(), cancels, interrupted }
    }

    fn interrupt(&self) -> impl Fn() + Send + Sync + 'static {
        let interrupted = self.interrupted.clone();
        move || interrupted.cancel()
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.is_cancelled()
    }

    /// Acquires one of them; `None` if another one was lost meanwhile.
    fn acquire(&self, member: &Lock, wait: Wait) -> Option<Result<Held>> {
        let lock = self.member(member).cancelled_by(&self.interrupted);
        match lock.acquire_one(wait) {
            Err(Error::Cancelled { .. }) if !self.cancels.iter().any(Cancel::is_cancelled) => None,
            result => Some(result),
        }
    }
}

crate::combined::combined!([] []);
