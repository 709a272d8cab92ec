//! Tasks that maintain holds: one renews their leases, others wait for the server's notification of a loss. For a
//! session such a task also maintains the connection.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use redis::{RedisResult, Value};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout_at};

use super::pool::{Line, Sending};
use super::Core;
use crate::agenda::{Agenda, Id};
use crate::hold::{Hold, Watched};
use crate::util::{is_not_held, judge, locked, timed_out, Pause, Verdict, SHORT};

/// When which leases are to be renewed, or expire. One task handles all of them.
#[derive(Default)]
pub(super) struct Keeper {
    agenda: Mutex<Agenda<Arc<Hold>>>,
    news: Notify,
    is_started: AtomicBool,
}

impl Keeper {
    /// From `due` on, renews the lease of a hold, or reports its end.
    pub fn keep(self: &Arc<Self>, core: &Arc<Core>, due: Instant, hold: Arc<Hold>) -> Id {
        if !self.is_started.swap(true, Ordering::Relaxed) {
            core.runtime.spawn(self.clone().run(Arc::downgrade(core)));
        }
        self.add(None, due, hold)
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
        if !hold.spec.renew || hold.spec.session {
            return Some(hold.until());
        }
        let sent = Instant::now();
        match self.renew(hold).await {
            Verdict::Done(_) | Verdict::Null => {
                hold.confirmed(sent);
                Some(sent + hold.spec.lease / 3)
            }
            Verdict::Never(error) if is_not_held(&error) => {
                hold.reported();
                None
            }
            Verdict::Again(_) | Verdict::Never(_) => Some(hold.next_try()),
        }
    }

    async fn renew(&self, hold: &Hold) -> Verdict {
        let mut last = Verdict::Null;
        for command in hold.spec.renew(&hold.owner) {
            let listen = SHORT.min(hold.left()).max(Duration::from_millis(1)) + hold.spec.replicas_time();
            last = judge(self.pool.short(hold.spec.key(), &command, listen).await.reply);
            if !matches!(last, Verdict::Done(_)) {
                break;
            }
        }
        last
    }
}

/// A task that watches one key. `line` is a session's connection.
pub(super) struct Watch {
    pub core: Arc<Core>,
    pub hold: Arc<Hold>,
    pub key: usize,
    pub line: Option<Line>,
}

impl Watch {
    pub async fn run(mut self) {
        let mut pause = Pause::new();
        while self.hold.is_held() {
            let (since, (block, listen)) = (Instant::now(), self.hold.watch_times(self.core.shared.max_block));
            let reply = self.once(block, listen).await;
            match self.hold.watched(reply, since, block) {
                Watched::Ended => break,
                Watched::Still => pause = Pause::new(),
                Watched::Again => {
                    self.line = None;
                    sleep(pause.next(None).unwrap_or_default()).await;
                }
            }
        }
        // The release has ended the watch, so the connection can be used again.
        self.line.take().into_iter().for_each(|line| self.core.pool.keep(line));
    }

    /// One `LOCK.WATCH`, on a new connection if the last one is gone.
    async fn once(&mut self, block: Duration, listen: Duration) -> RedisResult<Value> {
        let command = self.hold.spec.watch(self.key, &self.hold.owner, block.as_millis() as u64);
        if self.line.is_none() && self.hold.spec.session && self.key == 0 {
            self.line = Some(self.bind().await?);
        }
        if let Some(line) = &mut self.line {
            return line.ask(&command, listen).await;
        }
        let command = &|| (command.clone(), listen);
        let sending = Sending { command, limit: SHORT, waits: true, is_sent: &AtomicBool::default() };
        let answer = self.core.pool.call(&self.hold.spec.keys[self.key], sending).await;
        self.line = answer.line;
        answer.reply
    }

    /// Binds all keys of a session to another connection.
    async fn bind(&self) -> RedisResult<Line> {
        let sent = Instant::now();
        let listen = SHORT.min(self.hold.left()).max(Duration::from_millis(1));
        let mut line: Option<Line> = None;
        for command in self.hold.spec.renew(&self.hold.owner) {
            if let Some(line) = &mut line {
                line.ask(&command, listen).await?;
                continue;
            }
            let command = &|| (command.clone(), listen);
            let sending = Sending { command, limit: listen, waits: false, is_sent: &AtomicBool::default() };
            let answer = self.core.pool.call(self.hold.spec.key(), sending).await;
            answer.reply?;
            line = answer.line;
        }
        self.hold.confirmed(sent);
        line.ok_or_else(|| timed_out("there is no connection to bind to"))
    }
}
