//! Tasks that maintain holds: one renews their leases, others wait for the server's notification of a loss. For a
//! session such a task also maintains the connection.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use redis::{Cmd, RedisResult, Value};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout_at};

use super::pool::Pooled;
use super::Core;
use crate::agenda::{Agenda, Id};
use crate::hold::{Hold, Watched};
use crate::spec::{Kind, Spec};
use crate::trial::{held_by, Trial};
use crate::util::{is_not_held, judge, left, locked, Pause, Sent, Verdict, SHORT};
use crate::Error;

/// When which leases are to be renewed, or expire. One task handles all of them.
#[derive(Default)]
pub(super) struct Keeper {
    agenda: Mutex<Agenda<Arc<Hold>>>,
    news: Notify,
    is_started: AtomicBool,
}

impl Keeper {
    /// Renews the lease of a hold when it is due, or reports its end.
    pub fn keep(self: &Arc<Self>, core: &Arc<Core>, hold: Arc<Hold>) -> Id {
        if !self.is_started.swap(true, Ordering::Relaxed) {
            core.runtime.spawn(self.clone().run(Arc::downgrade(core)));
        }
        self.add(None, hold.due(), hold)
    }

    /// The same from now on with the current lease of the hold.
    pub fn reschedule(&self, job: Id, hold: &Arc<Hold>) {
        if hold.is_held() {
            self.add(Some(job), hold.due(), hold.clone());
        }
    }

    /// Removes a hold.
    pub fn leave(&self, id: Id) {
        locked(&self.agenda).remove(id);
    }

    /// Called when the factory is dropped.
    pub fn close(&self) {
        self.news.notify_one();
    }

    fn add(&self, id: Option<Id>, due: Instant, hold: Arc<Hold>) -> Id {
        let (id, wakes) = locked(&self.agenda).add(id, due, hold);
        if wakes {
            self.news.notify_one();
        }
        id
    }

    async fn run(self: Arc<Self>, core: Weak<Core>) {
        while core.strong_count() > 0 {
            let next = locked(&self.agenda).next(Instant::now());
            match next {
                Ok((id, hold)) => self.clone().handle(&core, id, hold),
                Err(None) => self.news.notified().await,
                Err(Some(due)) => drop(timeout_at(due.into(), self.news.notified()).await),
            }
        }
    }

    /// In a task of its own, so that a node that does not respond does not delay the others.
    fn handle(self: Arc<Self>, core: &Weak<Core>, id: Id, hold: Arc<Hold>) {
        if let Some(core) = core.upgrade() {
            core.runtime.clone().spawn(async move {
                if let Some(due) = core.keep(&hold).await {
                    self.add(Some(id), due, hold);
                }
            });
        }
    }
}

impl Core {
    /// Renews the lease, or notices that it has expired. Returns when to call this again, if necessary.
    async fn keep(&self, hold: &Hold) -> Option<Instant> {
        if !hold.is_held() {
            return None;
        }
        if hold.is_expired() {
            hold.expire();
            return None;
        }
        if hold.next_renewal().is_none() {
            return Some(hold.until());
        }
        self.renew(hold).await
    }
}

crate::both::watch!([async] [.await]);
