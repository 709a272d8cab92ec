//! Locks that more than half of several servers have granted.

use std::future::{pending, Future};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::Cmd;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout_at};

use super::guard::begin_renewal;
use super::pool::{Answer, Pooled};
use super::{Core, Locks};
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
    again, capped, is_busy, is_not_held, judge, left, timed_out, Pause, Sent, Verdict, Wait, REPLY_TOLERANCE, SHORT,
};
use crate::{Error, Result};

/// Independent servers for threads or tasks.
pub type RedLock = crate::RedLock<Core>;

/// A lock of such servers.
pub type MajorityLock = crate::MajorityLock<Core>;

/// A lock that a majority has granted, and that is renewed until the guard is released or dropped, by a task of its own.
///
/// Dropping the guard releases the lock in tasks.
#[must_use = "a guard that is dropped at once holds nothing"]
pub struct MajorityGuard {
    party: Arc<Party<Core>>,
    hold: Arc<Hold>,
    keeping: Keeping,
    has_ended: bool,
}

impl MajorityGuard {
    /// Completes when the lock is lost, and never if it is released.
    pub fn lost(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut lost = self.keeping.lost.subscribe();
        async move {
            if lost.wait_for(|lost| *lost).await.is_err() {
                pending::<()>().await;
            }
        }
    }
}

impl Drop for MajorityGuard {
    fn drop(&mut self) {
        if !self.has_ended {
            self.hold.end();
            let held = self.party.give_up();
            for (number, locks) in self.party.servers.all.iter().enumerate() {
                if held.contains(&number) {
                    free(&locks.core, &self.party);
                }
                locks.core.shared.remove(&self.party.owner);
            }
        }
    }
}

/// Wakes the task that keeps a hold; the task ends when this is dropped.
struct Keeping {
    waker: mpsc::UnboundedSender<()>,
    lost: Arc<watch::Sender<bool>>,
}

type Stopped = mpsc::UnboundedReceiver<()>;

impl Keeping {
    fn new(on_lost: Option<OnLost>) -> (Self, Stopped, Option<OnLost>) {
        let (lost, (waker, stopped)) = (Arc::new(watch::Sender::new(false)), mpsc::unbounded_channel());
        let on_lost = super::guard::reporting(lost.clone(), on_lost);
        (Self { waker, lost }, stopped, Some(on_lost))
    }

    fn wake(&self) {
        let _ = self.waker.send(());
    }
}

async fn pause(stopped: &mut Stopped, until: Instant) -> Paused {
    match timeout_at(until.into(), stopped.recv()).await {
        Ok(Some(())) => Paused::Woken,
        Ok(None) => Paused::Ended,
        Err(_) => Paused::Due,
    }
}

fn keep(keeper: Keeper) {
    keeper.party.servers.all[0].core.runtime.clone().spawn(keeper.run());
}

type Sender = mpsc::UnboundedSender<(usize, Vote)>;

fn channel() -> (Sender, mpsc::UnboundedReceiver<(usize, Vote)>) {
    mpsc::unbounded_channel()
}

async fn answer(answers: &mut mpsc::UnboundedReceiver<(usize, Vote)>, by: Instant) -> Option<(usize, Vote)> {
    timeout_at(by.into(), answers.recv()).await.ok().flatten()
}

fn start(voter: Voter) {
    let (core, party) = (voter.party.servers.all[voter.number].core.clone(), voter.party.clone());
    // The end of the runtime may end it before its reply: what that grants is released.
    let last = match voter.request {
        Request::Identify => Vec::new(),
        _ => vec![party.spec.release(&party.owner)],
    };
    core.clearing(voter.run(), last, &party.spec);
}

/// Releases what a server may have granted, in a task.
fn free(core: &Arc<Core>, party: &Arc<Party<Core>>) {
    let (clearing, spec, owner) = (core.clone(), party.spec.clone(), party.owner.clone());
    let (last, end) = (vec![spec.release(&owner)], Instant::now() + party.lease());
    let working = party.working.clone();
    let task = async move {
        let _working = working;
        let mut pause = Pause::new();
        while clearing.clear(&spec, &owner).await.is_none() {
            match pause.next(Some(end)) {
                Some(pause) => sleep(pause).await,
                None => return,
            }
        }
        clearing.clear_later(spec, owner);
    };
    core.clearing(task, last, &party.spec);
}

crate::redlock::redlock!([async] [.await]);

impl MajorityLock {
    #[allow(clippy::unnecessary_wraps)] // In threads it can be cancelled.
    fn check_cancel(&self) -> Result<()> {
        Ok(())
    }
}
