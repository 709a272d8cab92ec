//! Locks that a thread enters again while it holds them.

use std::cell::RefCell;
use std::sync::{Arc, Weak};

use super::{Core, Held, Lock};
use crate::hold::Hold;
use crate::util::Wait;
use crate::Result;

thread_local! {
    /// What this thread has acquired, and may still hold.
    static HELD: RefCell<Vec<(Weak<Core>, Weak<Hold>)>> = const { RefCell::new(Vec::new()) };
}

/// Enters a hold of this thread, or acquires the lock and records it.
pub(super) fn acquire(lock: &Lock, wait: Wait) -> Result<Held> {
    lock.core.shared.check(&lock.spec)?;
    if let Some(hold) = find(lock) {
        if lock.spec.fenced && hold.token.is_none() {
            return Err(lock.spec.invalid("fenced: this thread holds the lock without a token"));
        }
        if let Some(entered) = hold.enter() {
            return entered.map(|()| Held::again(&lock.core, &hold));
        }
    }
    let one = lock.request(wait)?;
    HELD.with_borrow_mut(|held| held.push((Arc::downgrade(&lock.core), Arc::downgrade(&one.hold))));
    Ok(one)
}

/// The hold of this lock that this thread has, if it has one. Forgets those that were released.
fn find(lock: &Lock) -> Option<Arc<Hold>> {
    HELD.with_borrow_mut(|held| {
        held.retain(|(_, hold)| hold.upgrade().is_some_and(|hold| hold.has_guards()));
        let mut same = held.iter().filter(|(core, _)| core.as_ptr() == Arc::as_ptr(&lock.core));
        same.find_map(|(_, hold)| hold.upgrade().filter(|hold| hold.spec.is_same(&lock.spec)))
    })
}
