//! A schedule of jobs. Short holds are added and removed without waking the task or thread that executes the jobs.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

/// The id of a job, with which it can be removed.
pub(crate) type Id = u64;

/// Jobs, ordered by the time at which they are due.
pub(crate) struct Agenda<J> {
    jobs: BTreeMap<(Instant, Id), J>,
    dues: HashMap<Id, Instant>,
    last: Id,
    /// When the executor of the jobs wakes up by itself; `None` while it is not asleep.
    wakes: Option<Instant>,
}

impl<J> Default for Agenda<J> {
    fn default() -> Self {
        Self { jobs: BTreeMap::new(), dues: HashMap::new(), last: 0, wakes: None }
    }
}

impl<J> Agenda<J> {
    /// Adds a job, with a new id or in place of the job with this one. Returns the id, and whether the executor must be woken.
    pub fn add(&mut self, id: Option<Id>, due: Instant, job: J) -> (Id, bool) {
        self.last += 1;
        let id = id.unwrap_or(self.last);
        if let Some(before) = self.dues.insert(id, due) {
            self.jobs.remove(&(before, id));
        }
        self.jobs.insert((due, id), job);
        (id, self.wakes.is_none_or(|wakes| due < wakes))
    }

    /// Removes a job, unless it is being executed.
    pub fn remove(&mut self, id: Id) {
        if let Some(due) = self.dues.remove(&id) {
            self.jobs.remove(&(due, id));
        }
    }

    /// The first job if it is due; otherwise when to call this again, which is recorded. `None`: no job is scheduled.
    pub fn next(&mut self, now: Instant) -> Result<(Id, J), Option<Instant>> {
        let first = self.jobs.first_key_value().map(|(&(due, _), _)| due);
        if first.is_none_or(|due| due > now) {
            self.wakes = first;
            return Err(first);
        }
        self.wakes = Some(now);
        match self.jobs.pop_first() {
            Some(((_, id), job)) => {
                self.dues.remove(&id);
                Ok((id, job))
            }
            None => Err(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn jobs_are_ordered_and_only_an_earlier_one_wakes() {
        let (now, mut agenda) = (Instant::now(), Agenda::default());
        let at = |seconds| now + Duration::from_secs(seconds);
        let (second, wakes) = agenda.add(None, at(2), "second");
        assert!(wakes);
        assert_eq!(agenda.next(now), Err(Some(at(2))));
        assert!(!agenda.add(None, at(3), "third").1);
        assert!(agenda.add(None, at(1), "first").1);
        assert_eq!(agenda.next(at(2)).unwrap().1, "first");
        agenda.add(Some(second), at(4), "replaced");
        assert!(!agenda.add(Some(second), at(5), "moved").1);
        agenda.remove(second);
        assert_eq!(agenda.next(at(2)), Err(Some(at(3))));
        assert_eq!(agenda.next(at(3)).unwrap().1, "third");
        assert_eq!(agenda.next(at(3)), Err(None));
    }
}
