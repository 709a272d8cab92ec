//! One thread for all locks of a factory: it renews leases, and cancels requests once more that were given up.

use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use super::pool::Line;
use super::{watch, Core};
use crate::agenda::{Agenda, Id};
use crate::hold::Hold;
use crate::spec::Spec;
use crate::util::{is_not_held, judge, locked, Verdict, SHORT};

enum Job {
    /// The lease is to be renewed, or expires.
    Keep(Arc<Hold>),
    /// A watch is to begin, on this connection if it is a session's.
    Watch(Arc<Core>, Arc<Hold>, Option<Line>),
    /// A request is to be cancelled.
    Clear(Arc<Core>, Arc<Spec>, String),
}

#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    news: Condvar,
}

#[derive(Default)]
struct State {
    agenda: Agenda<Job>,
    /// How many clean-ups are in progress or scheduled.
    clearing: usize,
    is_started: bool,
    is_closed: bool,
}

impl Queue {
    /// From `due` on, renews the lease of a hold, or reports its end.
    pub fn keep(self: &Arc<Self>, core: &Arc<Core>, due: Instant, hold: Arc<Hold>) -> Id {
        self.start(core);
        self.add(None, due, Job::Keep(hold))
    }

    /// Watches a hold from now on.
    pub fn watch(self: &Arc<Self>, core: &Arc<Core>, hold: &Arc<Hold>, line: Option<Line>) {
        self.start(core);
        self.add(None, Instant::now(), Job::Watch(core.clone(), hold.clone(), line));
    }

    /// Cancels a request at `due`.
    pub fn clear(self: &Arc<Self>, core: Arc<Core>, due: Instant, spec: Arc<Spec>, owner: String) {
        self.start(&core);
        self.begin();
        self.add(None, due, Job::Clear(core, spec, owner));
    }

    /// Removes a job.
    pub fn drop_job(&self, id: Id) {
        locked(&self.state).agenda.remove(id);
    }

    /// Counts a clean-up that begins; [`Queue::end`] must follow.
    pub fn begin(&self) {
        locked(&self.state).clearing += 1;
    }

    pub fn end(&self) {
        locked(&self.state).clearing -= 1;
        self.news.notify_all();
    }

    /// Waits until no clean-up is in progress. Returns false if one still is at `end`.
    pub fn settle(&self, end: Instant) -> bool {
        let left = end.saturating_duration_since(Instant::now());
        let waited = self.news.wait_timeout_while(locked(&self.state), left, |state| state.clearing > 0);
        waited.unwrap_or_else(PoisonError::into_inner).0.clearing == 0
    }

    pub fn close(&self) {
        locked(&self.state).is_closed = true;
        self.news.notify_all();
    }

    fn add(&self, id: Option<Id>, due: Instant, job: Job) -> Id {
        let (id, wakes) = locked(&self.state).agenda.add(id, due, job);
        if wakes {
            self.news.notify_all();
        }
        id
    }

    fn start(self: &Arc<Self>, core: &Arc<Core>) {
        if std::mem::replace(&mut locked(&self.state).is_started, true) {
            return;
        }
        let (queue, core) = (self.clone(), Arc::downgrade(core));
        thread::spawn(move || queue.run(&core));
    }

    fn run(&self, core: &Weak<Core>) {
        while let Some((id, job)) = self.next() {
            match job {
                Job::Watch(core, hold, line) => watch::start(&core, &hold, line),
                Job::Clear(core, spec, owner) => {
                    core.clear(&spec, &owner);
                    self.end();
                }
                Job::Keep(hold) => {
                    if let Some(due) = core.upgrade().and_then(|core| core.keep(&hold)) {
                        self.add(Some(id), due, Job::Keep(hold));
                    }
                }
            }
        }
    }

    /// Waits for the next job that is due; `None` when the factory was dropped.
    fn next(&self) -> Option<(Id, Job)> {
        let mut state = locked(&self.state);
        while !state.is_closed {
            let now = Instant::now();
            state = match state.agenda.next(now) {
                Ok(job) => return Some(job),
                Err(None) => self.news.wait(state).unwrap_or_else(PoisonError::into_inner),
                Err(Some(due)) => self.news.wait_timeout(state, due - now).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
        None
    }
}

impl Core {
    /// Renews the lease, or notices that it has expired. Returns when to call this again, if necessary.
    fn keep(&self, hold: &Hold) -> Option<Instant> {
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
        match self.renew(hold) {
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

    fn renew(&self, hold: &Hold) -> Verdict {
        let mut last = Verdict::Null;
        for command in hold.spec.renew(&hold.owner) {
            let listen = SHORT.min(hold.left()).max(Duration::from_millis(1)) + hold.spec.replicas_time();
            last = judge(self.pool.short(hold.spec.key(), &command, listen).reply);
            if !matches!(last, Verdict::Done(_)) {
                break;
            }
        }
        last
    }
}
