//! Several locks at once.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, FromRedisValue};
use tokio::sync::watch;

use super::guard::give_back;
use super::{unless, Core, Guard, Held, Lock};
use crate::combined::{ordered, worse, Loss, Lost};
use crate::hold::OnLost;
use crate::util::{capped, Wait};
use crate::Result;

/// Several locks of such factories.
pub type Combined = crate::Combined<Core>;

/// Locks that are acquired together: all of them or none. [`sync::combine`](crate::sync::combine) has an example.
pub fn combine(locks: impl IntoIterator<Item = Lock>) -> Combined {
    Combined { members: locks.into_iter().collect(), on_lost: None }
}

/// One acquisition of several locks, which ends if one of them is lost.
struct Round {
    loss: Arc<Loss>,
    on_lost: Option<OnLost>,
    interrupted: Arc<watch::Sender<bool>>,
}

impl Round {
    fn new(_: &[Lock], on_lost: Option<&OnLost>) -> Self {
        Self { loss: Arc::default(), on_lost: on_lost.cloned(), interrupted: Arc::new(watch::Sender::new(false)) }
    }

    fn interrupt(&self) -> impl Fn() + Send + Sync + 'static {
        let interrupted = self.interrupted.clone();
        move || {
            interrupted.send_replace(true);
        }
    }

    fn is_interrupted(&self) -> bool {
        *self.interrupted.borrow()
    }

    /// Acquires one of them; `None` if another one was lost meanwhile.
    async fn acquire(&self, member: &Lock, wait: Wait) -> Option<Result<Held>> {
        let lock = self.member(member);
        let acquired = lock.acquire_one(wait);
        unless(&self.interrupted, acquired).await
    }
}

crate::combined::combined!([async] [.await]);
