//! Locks that more than half of several servers have granted.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{mpsc, Arc};
use std::thread::{sleep, Builder};
use std::time::{Duration, Instant};

use redis::Cmd;

use super::guard::begin_renewal;
use super::pool::{Answer, Pooled};
use super::{Cancel, Core, Locks};
use crate::error::NotAcquired;
use crate::hold::{Hold, OnLost};
use crate::nodes::Name;
use crate::redlock::{
    drift, judged, random_pause, refusing, reply_time, Fault, Identity, Party, Paused, Reason, Request, Servers, Vote,
    ACQUISITIONS,
};
use crate::shared::SETTLING;
use crate::spec::{Spec, REPORTED};
use crate::trial::held_by;
use crate::util::{
    again, capped, is_busy, is_not_held, judge, left, timed_out, Sent, Verdict, Wait, REPLY_TOLERANCE, SHORT,
};
use crate::{Error, Result};

/// Independent servers for threads or tasks.
pub type RedLock = crate::RedLock<Core>;

/// A lock of such servers.
pub type MajorityLock = crate::MajorityLock<Core>;

/// A lock that a majority has granted, and that is renewed until the guard is released or dropped, by a thread of its own.
///
/// Dropping the guard releases the lock, as [`release`](Self::release) does.
#[must_use = "a guard that is dropped at once holds nothing"]
pub struct MajorityGuard {
    party: Arc<Party<Core>>,
    hold: Arc<Hold>,
    keeping: Keeping,
    has_ended: bool,
}

impl Drop for MajorityGuard {
    fn drop(&mut self) {
        if !self.has_ended {
            let _ = self.end();
        }
    }
}

/// Wakes the thread that keeps a hold; the thread ends when this is dropped.
struct Keeping(mpsc::Sender<()>);

type Stopped = mpsc::Receiver<()>;

impl Keeping {
    fn new(on_lost: Option<OnLost>) -> (Self, Stopped, Option<OnLost>) {
        let (sender, stopped) = mpsc::channel();
        (Self(sender), stopped, on_lost)
    }

    fn wake(&self) {
        let _ = self.0.send(());
    }
}

fn pause(stopped: &mut Stopped, until: Instant) -> Paused {
    match stopped.recv_timeout(left(until)) {
        Ok(()) => Paused::Woken,
        Err(mpsc::RecvTimeoutError::Timeout) => Paused::Due,
        Err(mpsc::RecvTimeoutError::Disconnected) => Paused::Ended,
    }
}

fn keep(keeper: Keeper) {
    // Without a thread the hold ends with its lease.
    let _ = Builder::new().spawn(move || keeper.run());
}

type Sender = mpsc::Sender<(usize, Vote)>;

fn channel() -> (Sender, mpsc::Receiver<(usize, Vote)>) {
    mpsc::channel()
}

fn answer(answers: &mut mpsc::Receiver<(usize, Vote)>, by: Instant) -> Option<(usize, Vote)> {
    answers.recv_timeout(left(by)).ok()
}

fn start(voter: Voter) {
    let (busy, number) = (voter.party.busy.clone(), voter.number);
    if Builder::new().spawn(move || voter.run()).is_err() {
        busy[number].store(false, Ordering::SeqCst);
    }
}

/// Releases what a server may have granted, in the background.
fn free(core: &Arc<Core>, party: &Arc<Party<Core>>) {
    let (spec, owner, working) = (party.spec.clone(), party.owner.clone(), party.working.clone());
    let end = Instant::now() + party.lease();
    core.persist(party.spec.key(), end, move |core| {
        let _working = &working;
        let is_free = core.clear(&spec, &owner).is_some();
        if is_free {
            core.clear_later(spec.clone(), owner.clone());
        }
        is_free
    });
}

crate::redlock::redlock!([] []);

impl MajorityLock {
    /// [`Cancel::cancel`] ends the waits of this lock.
    pub fn cancelled_by(mut self, cancel: &Cancel) -> Self {
        self.lock = self.lock.cancelled_by(cancel);
        self
    }

    fn check_cancel(&self) -> Result<()> {
        match self.lock.cancel.as_ref().is_some_and(Cancel::is_cancelled) {
            true => Err(Error::Cancelled { lock: self.lock.spec.to_string() }),
            false => Ok(()),
        }
    }
}
