//! What is done for all locks of a factory in the background: leases are renewed, losses reported, and what was given up
//! is cleaned up. One thread has the schedule; the jobs are executed by some threads for each node, so that a node that
//! does not respond delays only its own.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread;
use std::time::Instant;

use super::Core;
use crate::agenda::{Agenda, Id};
use crate::hold::Hold;
use crate::nodes::Name;
use crate::shared::Waiting;
use crate::spec::Spec;
use crate::util::{locked, Pause, CLEAR_AGAIN};

/// How many threads execute the jobs of one node.
const WORKERS: usize = 8;

/// It returns when it is to be executed again, if it is.
type Step = Box<dyn FnMut() -> Option<Instant> + Send>;

enum Job {
    /// The lease is to be renewed, or expires.
    Keep(Arc<Hold>),
    /// Something else, at the node with this name.
    Step(Name, Step),
}

#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    news: Condvar,
}

#[derive(Default)]
struct State {
    agenda: Agenda<Job>,
    /// The jobs that are due, and the number of threads, for each node.
    nodes: HashMap<Name, (VecDeque<(Id, Job)>, usize)>,
    is_started: bool,
    is_closed: bool,
}

impl Queue {
    /// Renews the lease of a hold when it is due, or reports its end.
    pub fn keep(self: &Arc<Self>, core: &Arc<Core>, hold: Arc<Hold>) -> Id {
        self.start(core);
        self.add(None, hold.due(), Job::Keep(hold))
    }

    /// The same from now on with the current lease of the hold.
    pub fn reschedule(&self, job: Id, hold: &Arc<Hold>) {
        if hold.is_held() {
            self.add(Some(job), hold.due(), Job::Keep(hold.clone()));
        }
    }

    /// Executes `step` from `due` on until it returns `None`.
    pub fn step(
        self: &Arc<Self>,
        core: &Arc<Core>,
        key: &[u8],
        due: Instant,
        step: impl FnMut() -> Option<Instant> + Send + 'static,
    ) {
        self.start(core);
        self.add(None, due, Job::Step(core.node(key), Box::new(step)));
    }

    /// Removes a job.
    pub fn drop_job(&self, id: Id) {
        locked(&self.state).agenda.remove(id);
    }

    /// Ends it. Jobs that were not executed are dropped.
    pub fn close(&self) {
        let mut state = locked(&self.state);
        state.is_closed = true;
        let dropped = (std::mem::take(&mut state.agenda), std::mem::take(&mut state.nodes));
        drop(state);
        drop(dropped);
        self.news.notify_all();
    }

    fn add(&self, id: Option<Id>, due: Instant, job: Job) -> Id {
        let mut state = locked(&self.state);
        if state.is_closed {
            drop(state); // the job must be dropped without the lock
            return 0;
        }
        let (id, wakes) = state.agenda.add(id, due, job);
        drop(state);
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
        let started = thread::Builder::new().spawn(move || queue.run(&core));
        locked(&self.state).is_started = started.is_ok(); // if not, the next job tries again
    }

    fn run(self: &Arc<Self>, core: &Weak<Core>) {
        while let Some((id, job)) = self.next() {
            match job {
                Job::Step(name, step) => self.execute(core, name.clone(), id, Job::Step(name, step)),
                Job::Keep(hold) if !hold.is_held() => {}
                // The callback is the user's, so it has threads of its own.
                Job::Keep(hold) if hold.is_expired() => {
                    let (name, expires) = (Name::from("losses"), move || {
                        hold.expire();
                        None
                    });
                    self.execute(core, name.clone(), id, Job::Step(name, Box::new(expires)));
                }
                Job::Keep(hold) => {
                    // It expires then, also if no thread has time to renew it.
                    self.add(Some(id), hold.until(), Job::Keep(hold.clone()));
                    if let Some(core) = core.upgrade().filter(|_| hold.next_renewal().is_some()) {
                        self.execute(&Arc::downgrade(&core), core.node(hold.spec.key()), id, Job::Keep(hold));
                    }
                }
            }
        }
    }

    /// Executes a job on one of the node's threads.
    fn execute(self: &Arc<Self>, core: &Weak<Core>, name: Name, id: Id, job: Job) {
        let mut state = locked(&self.state);
        if state.is_closed {
            return drop(state);
        }
        let (jobs, threads) = state.nodes.entry(name.clone()).or_default();
        jobs.push_back((id, job));
        if *threads == WORKERS {
            return;
        }
        *threads += 1;
        drop(state);
        let (queue, weak, node) = (self.clone(), core.clone(), name.clone());
        if thread::Builder::new().spawn(move || queue.work(&weak, &node)).is_err() {
            self.work(core, &name);
        }
    }

    /// Executes the jobs of a node until there are none.
    fn work(&self, core: &Weak<Core>, name: &Name) {
        loop {
            let mut state = locked(&self.state);
            let Some((jobs, threads)) = state.nodes.get_mut(name) else { return };
            let Some((id, job)) = jobs.pop_front() else {
                *threads -= 1;
                return;
            };
            drop(state);
            match job {
                Job::Keep(hold) => {
                    let due = core.upgrade().filter(|_| hold.is_held()).and_then(|core| core.renew(&hold));
                    if let Some(due) = due.filter(|_| hold.is_held()) {
                        self.add(Some(id), due, Job::Keep(hold));
                    }
                }
                Job::Step(name, mut step) => {
                    if let Some(due) = step() {
                        self.add(Some(id), due, Job::Step(name, step));
                    }
                }
            }
        }
    }

    /// Waits for the next job that is due; `None` when the factory was closed or dropped.
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
    /// The name of the node of this key, if it is known.
    fn node(&self, key: &[u8]) -> Name {
        self.pool.nodes.target(key).map_or_else(|| Name::from(""), |target| target.name)
    }

    /// Repeats `step` in the background until it returns true, until `end` at most. `settle` waits for it.
    pub(super) fn persist(
        self: &Arc<Self>,
        key: &[u8],
        end: Instant,
        mut step: impl FnMut(&Arc<Core>) -> bool + Send + 'static,
    ) {
        let (core, clearing, mut pause) = (self.clone(), self.shared.clearing(), Pause::new());
        self.queue.step(self, key, Instant::now(), move || {
            let _counted = &clearing;
            let pause = if step(&core) { None } else { pause.next(Some(end)) };
            pause.map(|pause| Instant::now() + pause)
        });
    }

    /// Cancels an acquisition until nothing of it is on the server.
    pub(super) fn end_wait(self: &Arc<Self>, waiting: Arc<Waiting>, end: Instant) {
        let key = waiting.spec.clone();
        self.persist(key.key(), end, move |core| {
            let may_wait = || core.shared.may_wait(&waiting);
            !may_wait() || core.clear(&waiting.spec, &waiting.owner).is_some() && !may_wait()
        });
    }

    /// Cancels a request once more a little later, when one that was delayed by the network has arrived.
    pub(super) fn clear_later(self: &Arc<Self>, spec: Arc<Spec>, owner: String) {
        let (core, clearing, key) = (self.clone(), self.shared.clearing(), spec.clone());
        self.queue.step(self, key.key(), Instant::now() + CLEAR_AGAIN, move || {
            let _counted = &clearing;
            core.clear(&spec, &owner);
            None
        });
    }
}
