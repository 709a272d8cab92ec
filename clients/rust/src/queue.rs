//! Delayed queues: values that the server pushes to a list later, and the consumer of such a list.
//!
//! The consumer's elements and lists are the same in the packages of all languages. What it has taken is first in the
//! list of the taken elements, and then pending under a claim, with the number of its tries, until its timeout.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{Cmd, RedisError};
use uuid::Uuid;

use crate::lock::{Factory, Lock};
use crate::nodes::hash_tag;
use crate::shared::{Engaged, Shared};
use crate::spec::{on_key, Kind, Spec};
use crate::util::{capped, in_ms, SHORT};
use crate::Result;

/// How often a consumer looks for what a dead one has left behind, and checks whether it is to end.
pub(crate) const LOOK: Duration = SHORT;

/// A list to which the server pushes values later, and its consumers.
///
/// The list is an ordinary one: other clients may push to it, and read it.
pub struct DelayedQueue<C> {
    /// The factory, the list, and what ends a consumer.
    pub(crate) lock: Lock<C>,
    timeout: Duration,
    max_tries: u32,
    backoff: Duration,
}

/// A value that a consumer has received.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Job {
    /// What was pushed.
    pub value: Vec<u8>,
    /// Which try this is; 1 is the first one.
    pub tries: u32,
}

/// An element that is not due yet.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pending {
    /// Its id; that of a job in progress begins with `claim-`.
    pub id: String,
    /// When it is due.
    pub left: Duration,
    /// The value; of a job that was tried before, behind `lock-so:` and the number of its tries. It is empty if another
    /// client has removed it.
    pub value: Vec<u8>,
}

impl<C> Clone for DelayedQueue<C> {
    fn clone(&self) -> Self {
        Self { lock: self.lock.clone(), ..*self }
    }
}

impl<C> fmt::Debug for DelayedQueue<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DelayedQueue({})", self.lock.spec)
    }
}

impl<C> Factory<C> {
    /// A list with a delayed queue (`DELAY.PUSH`). In a cluster its name must have a hash tag, or contain no `}`.
    pub fn delayed_queue(&self, list: impl AsRef<[u8]>) -> DelayedQueue<C> {
        DelayedQueue {
            lock: self.make(Kind::Queue, vec![list.as_ref().to_vec()]),
            timeout: Duration::from_secs(60),
            max_tries: 5,
            backoff: Duration::from_secs(1),
        }
    }
}

impl<C> DelayedQueue<C> {
    /// How long a job may take before it is delivered again, to any consumer; 60 seconds by default.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = capped(timeout);
        self
    }

    /// How often a job is tried at most; 5 times by default. Then its value is in the list of the failed ones.
    pub fn max_tries(mut self, max_tries: u32) -> Self {
        self.max_tries = max_tries;
        self
    }

    /// How long after its first failure a job is tried again; 1 second by default. The time doubles with each failure.
    pub fn backoff(mut self, backoff: Duration) -> Self {
        self.backoff = capped(backoff);
        self
    }

    /// `DELAY.PUSH`, if its value and its id are valid.
    pub(crate) fn pushes(&self, id: &str, value: &[u8], delay: Duration) -> Result<Cmd> {
        if stored(value).1.len() < value.len() {
            return Err(self.lock.spec.invalid("value: it may not begin with lock-so:, a number and a colon"));
        }
        if id.is_empty() {
            return Err(self.lock.spec.invalid("id must not be empty"));
        }
        Ok(push(&self.lock.spec, id, capped(delay), value))
    }

    /// Begins a consumer.
    pub(crate) fn consumer(&self, shared: &Arc<Shared>) -> Result<Consumer> {
        let spec = &self.lock.spec;
        if self.timeout.is_zero() {
            return Err(spec.invalid("timeout must be greater than 0, not 0"));
        }
        if self.max_tries == 0 {
            return Err(spec.invalid("max_tries must be at least 1, not 0"));
        }
        let list = spec.key();
        let beside = |name: &str| match hash_tag(list) {
            Some(_) => [list, name.as_bytes()].concat(),
            None => [b"{", list, b"}", name.as_bytes()].concat(),
        };
        let (taken, failed) = (beside(":taken"), beside(":failed"));
        let (timeout, max_tries, backoff) = (self.timeout, self.max_tries, self.backoff);
        let (spec, engaged) = (Arc::new(spec.clone()), shared.engage(spec)?);
        Ok(Consumer { spec, taken, failed, timeout, max_tries, backoff, _engaged: engaged })
    }
}

/// One consumer's settings, and its commands.
pub(crate) struct Consumer {
    pub spec: Arc<Spec>,
    taken: Vec<u8>,
    failed: Vec<u8>,
    timeout: Duration,
    pub max_tries: u32,
    pub backoff: Duration,
    _engaged: Engaged,
}

/// An element that was taken from the list.
pub(crate) struct Taken {
    pub element: Vec<u8>,
    /// How often it was tried before.
    pub tries: u32,
    /// The id under which it is pending during the next try.
    pub claim: String,
    /// When this try is delivered again, at the earliest.
    pub until: Instant,
}

impl Consumer {
    pub fn take(&self, max_block: Duration) -> (Cmd, Duration) {
        let block = max_block.min(LOOK);
        let mut command = self.spec.named("BLMOVE");
        command.arg(&self.taken).arg("LEFT").arg("RIGHT").arg(block.as_secs_f64());
        (command, block)
    }

    pub fn taken(&self, element: Vec<u8>) -> Taken {
        let (high, low) = Uuid::new_v4().as_u64_pair();
        let (tries, claim) = (stored(&element).0, format!("claim-{:016x}", high ^ low));
        Taken { element, tries, claim, until: Instant::now() + self.timeout }
    }

    /// Requests all elements that are in the list of the taken ones.
    pub fn look(&self) -> Cmd {
        let mut command = on_key("LRANGE", &self.taken);
        command.arg(0).arg(-1);
        command
    }

    /// Makes it pending until its timeout.
    pub fn claim(&self, taken: &Taken) -> Cmd {
        self.pending(taken, self.timeout, taken.tries + 1)
    }

    /// Makes it pending for the next consumer, at once: this try does not count.
    pub fn give_back(&self, taken: &Taken) -> Cmd {
        self.pending(taken, Duration::ZERO, taken.tries)
    }

    /// Makes it pending for its next try.
    pub fn retry(&self, taken: &Taken) -> Cmd {
        let factor = 1_u32.checked_shl(taken.tries).unwrap_or(u32::MAX);
        self.pending(taken, capped(self.backoff.saturating_mul(factor)), taken.tries + 1)
    }

    fn pending(&self, taken: &Taken, delay: Duration, tries: u32) -> Cmd {
        let element = [format!("lock-so:{tries}:").as_bytes(), taken.value()].concat();
        push(&self.spec, &taken.claim, delay, &element)
    }

    /// Removes it from the list of the taken ones.
    pub fn remove(&self, taken: &Taken) -> Cmd {
        let mut command = on_key("LREM", &self.taken);
        command.arg(1).arg(&taken.element);
        command
    }

    /// The job is done, or has failed for the last time.
    pub fn cancel(&self, taken: &Taken) -> Cmd {
        let mut command = self.spec.named("DELAY.CANCEL");
        command.arg(&taken.claim);
        command
    }

    /// Keeps what has failed too often.
    pub fn fail(&self, taken: &Taken) -> Cmd {
        let mut command = on_key("RPUSH", &self.failed);
        command.arg(taken.value());
        command
    }
}

impl Taken {
    pub fn value(&self) -> &[u8] {
        stored(&self.element).1
    }

    pub fn job(&self) -> Job {
        Job { value: self.value().to_vec(), tries: self.tries + 1 }
    }
}

fn push(spec: &Spec, id: &str, delay: Duration, value: &[u8]) -> Cmd {
    let mut command = spec.named("DELAY.PUSH");
    command.arg(id).arg(in_ms(delay)).arg(value);
    command
}

/// The tries and the value of an element: only consumers push the number.
fn stored(element: &[u8]) -> (u32, &[u8]) {
    let numbered = || {
        let rest = element.strip_prefix(b"lock-so:")?;
        let end = rest.iter().position(|&byte| byte == b':')?;
        let digits =
            std::str::from_utf8(&rest[..end]).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
        // More tries than there can be are too many, too.
        (end > 0).then(|| (digits.parse().unwrap_or(u32::MAX).min(u32::MAX - 1), &rest[end + 1..]))
    };
    numbered().unwrap_or((0, element))
}

/// Whether a consumer cannot continue after this error: it would be the same each time.
pub(crate) fn is_final(error: &RedisError) -> bool {
    error.code().is_none_or(|code| ["WRONGTYPE", "NOPERM", "NOAUTH", "CROSSSLOT", "ERR"].contains(&code))
}

/// What was in the list of the taken elements when a consumer looked.
#[derive(Default)]
pub(crate) struct Looks {
    last: Option<Instant>,
    /// How often each element was there.
    seen: HashMap<Vec<u8>, usize>,
}

impl Looks {
    /// Whether it is time to look again.
    pub fn are_due(&self) -> bool {
        self.last.is_none_or(|last| last.elapsed() >= LOOK)
    }

    /// The elements that were there the last time, too: a consumer that lives has claimed them by now.
    pub fn left_behind(&mut self, elements: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        let mut seen: HashMap<Vec<u8>, usize> = HashMap::new();
        elements.iter().for_each(|element| *seen.entry(element.clone()).or_default() += 1);
        let mut before = std::mem::replace(&mut self.seen, seen);
        self.last = Some(Instant::now());
        let was_there = |element: &Vec<u8>| match before.get_mut(element) {
            Some(count @ 1..) => {
                *count -= 1;
                true
            }
            _ => false,
        };
        elements.into_iter().filter(was_there).collect()
    }
}

/// What is done with a delayed queue.
macro_rules! queue {
    ([$($async:ident)?] [$($await:tt)*]) => {
        impl DelayedQueue {
            /// Pushes the value to the list after this time. Returns the id with which it can be cancelled until then. It
            /// is not repeated: after a lost connection it may have been executed.
            ///
            /// # Errors
            ///
            /// [`InvalidOption`](Error::InvalidOption): a value may not begin with `lock-so:`, a number and a colon, as
            /// those of consumers do. [`Connection`](Error::Connection) if the server has not replied within two seconds,
            /// [`ModuleMissing`](Error::ModuleMissing), [`Closed`](Error::Closed), [`Refused`](Error::Refused).
            pub $($async)? fn push(&self, value: impl AsRef<[u8]>, delay: Duration) -> Result<String> {
                let command = self.pushes("*", value.as_ref(), delay)?;
                self.ask(&command, true)$($await)*
            }

            /// The same with an id. If an element with this id is pending, it gets this value and this time instead.
            ///
            /// # Errors
            ///
            /// Those of [`push`](Self::push).
            pub $($async)? fn push_as(&self, id: &str, value: impl AsRef<[u8]>, delay: Duration) -> Result<()> {
                let command = self.pushes(id, value.as_ref(), delay)?;
                // With this id, the server chooses a new one each time.
                self.ask(&command, id == "*")$($await)*
            }

            /// Removes a pending element. Returns false if it is not pending: it was delivered or cancelled before.
            ///
            /// # Errors
            ///
            /// Those of [`push`](Self::push).
            pub $($async)? fn cancel(&self, id: &str) -> Result<bool> {
                let mut command = self.lock.spec.named("DELAY.CANCEL");
                command.arg(id);
                self.ask(&command, false)$($await)*
            }

            /// The first of the pending elements, in the order of their times: this number of them, or ten.
            ///
            /// # Errors
            ///
            /// Those of [`push`](Self::push).
            pub $($async)? fn list(&self, count: Option<usize>) -> Result<Vec<Pending>> {
                let mut command = self.lock.spec.named("DELAY.LIST");
                if let Some(count) = count {
                    command.arg("COUNT").arg(count);
                }
                let list: Vec<(Vec<u8>, u64, Option<Vec<u8>>)> = self.ask(&command, false)$($await)*?;
                let pending = |(id, left, value): (Vec<u8>, _, Option<Vec<u8>>)| Pending {
                    id: shown(&id),
                    left: Duration::from_millis(left),
                    value: value.unwrap_or_default(),
                };
                Ok(list.into_iter().map(pending).collect())
            }

            fn running(&self) -> Result<Running> {
                let core = self.lock.core.clone();
                let (consumer, outage) = (Arc::new(self.consumer(&core.shared)?), Trial::new(Wait::forever()));
                Ok(Running { core, consumer, looks: Looks::default(), outage })
            }

            $($async)? fn ask<T: FromRedisValue>(&self, command: &Cmd, once: bool) -> Result<T> {
                let (spec, core) = (&self.lock.spec, &self.lock.core);
                spec.read(core.request(spec, spec.key(), command, once)$($await)*?, &core.pool.nodes)
            }
        }

        /// A consumer while it runs.
        struct Running {
            core: Arc<Core>,
            consumer: Arc<Consumer>,
            looks: Looks,
            outage: Trial,
        }

        impl Running {
            /// The next element, which is then in the list of the taken ones; `None` if there is none yet.
            $($async)? fn next(&mut self) -> Result<Option<Taken>> {
                let error = match self.step()$($await)* {
                    Ok(element) => {
                        self.outage.replied();
                        return Ok(element.map(|element| self.consumer.taken(element)));
                    }
                    Err(error) => error,
                };
                let (core, consumer) = (self.core.clone(), self.consumer.clone());
                let (spec, nodes) = (&consumer.spec, &core.pool.nodes);
                if again(&error) {
                    let text = error.clone();
                    match self.outage.failed(&core.shared, spec, nodes, error, Duration::ZERO) {
                        Some(pause) => sleep(pause)$($await)*,
                        None => return Err(spec.error(text, nodes)),
                    }
                } else if is_final(&error) {
                    return Err(spec.error(error, nodes));
                } else {
                    log::warn!("{spec}: nothing can be taken from the list: {error}");
                    sleep(LOOK)$($await)*;
                }
                Ok(None)
            }

            $($async)? fn step(&mut self) -> RedisResult<Option<Vec<u8>>> {
                let (core, consumer) = (self.core.clone(), self.consumer.clone());
                let key = consumer.spec.key();
                if self.looks.are_due() {
                    let by = self.outage.connect_by(&core.shared).min(Instant::now() + SHORT);
                    let reply = core.pool.short(key, &consumer.look(), by)$($await)*.reply?;
                    for element in self.looks.left_behind(from_redis_value(reply)?) {
                        let taken = consumer.taken(element);
                        core.claim(&consumer, &taken, consumer.give_back(&taken))$($await)*?;
                    }
                }
                let sending = || {
                    let (command, block) = consumer.take(core.shared.max_block);
                    Ok(Sent { command, by: Instant::now() + block + SLACK, is_long: true, once: false, behind: None })
                };
                let answer = core.pool.call(key, self.outage.connect_by(&core.shared), false, &sending)$($await)*;
                answer.pooled.into_iter().for_each(Pooled::keep);
                Ok(from_redis_value(answer.reply?)?)
            }
        }

        impl Core {
            /// Makes an element pending, and then removes it from the list of the taken ones, so that a death in between
            /// delivers it twice, and loses nothing. Returns false if it is not this consumer's: it stays where it is, or
            /// another one was faster.
            $($async)? fn claim(&self, consumer: &Consumer, taken: &Taken, push: Cmd) -> RedisResult<bool> {
                let key = consumer.spec.key();
                let by = || Instant::now() + SHORT;
                self.pool.short(key, &push, by())$($await)*.reply?;
                let removed = self.pool.brief(key, &consumer.remove(taken), by(), true)$($await)*;
                let removed: u64 = from_redis_value(removed.reply?)?;
                if removed == 0 {
                    self.pool.short(key, &consumer.cancel(taken), by())$($await)*.reply?;
                }
                Ok(removed > 0)
            }

            /// Claims an element for its next try. `None`: there is no job, for now.
            $($async)? fn begin_job(&self, consumer: &Consumer, taken: Taken) -> Result<Option<Taken>> {
                let spec = &consumer.spec;
                match self.claim(consumer, &taken, consumer.claim(&taken))$($await)* {
                    Ok(true) if taken.tries < consumer.max_tries => return Ok(Some(taken)),
                    Ok(true) => {
                        log::warn!("{spec}: a job has failed {} times; its value is kept", taken.tries);
                        let commands = [consumer.fail(&taken), consumer.cancel(&taken)];
                        self.settle(consumer, &taken, &commands)$($await)*?;
                    }
                    Ok(false) => {}
                    Err(error) if !again(&error) && is_final(&error) => return Err(spec.error(error, &self.pool.nodes)),
                    Err(error) => {
                        log::warn!("{spec}: a job cannot be claimed: {error}; it is delivered again");
                        // It must be able to end soon, and to look for what is left behind.
                        sleep(consumer.backoff.min(LOOK))$($await)*;
                    }
                }
                Ok(None)
            }

            /// Ends a job with this result.
            $($async)? fn end_job(&self, consumer: &Consumer, taken: &Taken, error: Option<String>) -> Result<()> {
                let spec = &consumer.spec;
                let Some(error) = error else {
                    return self.settle(consumer, taken, &[consumer.cancel(taken)])$($await)*;
                };
                log::warn!("{spec}: try {} of a job has failed: {error}", taken.tries + 1);
                if left(taken.until).is_zero() {
                    return Ok(()); // it is pending no more, so there is nothing to replace
                }
                self.settle(consumer, taken, &[consumer.retry(taken)])$($await)*
            }

            /// Sends these commands, again while there is an outage, until the claim has timed out: then the server
            /// delivers the job again.
            $($async)? fn settle(&self, consumer: &Consumer, taken: &Taken, commands: &[Cmd]) -> Result<()> {
                let (spec, key) = (&consumer.spec, consumer.spec.key());
                let mut is_late = false;
                for command in commands {
                    let (mut pause, mut unsure) = (Pause::new(), false);
                    while !is_late {
                        let answer = self.pool.short(key, command, Instant::now() + SHORT)$($await)*;
                        unsure |= answer.unsure;
                        match answer.reply {
                            // No claim was there any more.
                            Ok(Value::Int(0)) => is_late = !unsure,
                            Ok(_) => {}
                            Err(error) if again(&error) => match pause.next(Some(taken.until)) {
                                Some(pause) => {
                                    sleep(pause)$($await)*;
                                    continue;
                                }
                                None => is_late = true,
                            },
                            Err(error) if is_final(&error) => return Err(spec.error(error, &self.pool.nodes)),
                            Err(error) => {
                                log::warn!("{spec}: the end of a job is refused: {error}; it is delivered again");
                                return Ok(());
                            }
                        }
                        break;
                    }
                }
                if is_late {
                    log::warn!("{spec}: a job took longer than its timeout; it is delivered again");
                }
                Ok(())
            }
        }
    };
}
pub(crate) use queue;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_have_tries_and_a_value() {
        let value = |element: &'static str| {
            let (tries, value) = stored(element.as_bytes());
            (tries, std::str::from_utf8(value).unwrap())
        };
        let plain = ["", "a", "lock-so:", "lock-so::a", "lock-so:x:a", "lock-so:+1:a", "lock-so:1", " lock-so:1:a"];
        plain.into_iter().for_each(|element| assert_eq!(value(element), (0, element)));
        assert_eq!(value("lock-so:0:a"), (0, "a"));
        assert_eq!(value("lock-so:2:lock-so:1:a"), (2, "lock-so:1:a"));
        assert_eq!(value("lock-so:12:"), (12, ""));
        assert_eq!(value("lock-so:99999999999:a"), (u32::MAX - 1, "a"));
        assert_eq!(value("lock-so:4294967295:a"), (u32::MAX - 1, "a"), "one more is a number, too");
    }

    #[test]
    fn only_what_was_there_before_is_left_behind() {
        let mut looks = Looks::default();
        let of = |elements: &[&str]| -> Vec<Vec<u8>> { elements.iter().map(|one| one.as_bytes().to_vec()).collect() };
        assert!(looks.are_due());
        assert_eq!(looks.left_behind(of(&["a", "b", "b"])), of(&[]));
        assert!(!looks.are_due());
        assert_eq!(looks.left_behind(of(&["b", "c", "b", "b", "a"])), of(&["b", "b", "a"]));
        assert_eq!(looks.left_behind(of(&["c"])), of(&["c"]));
        assert_eq!(looks.left_behind(of(&[])), of(&[]));
        assert_eq!(looks.left_behind(of(&["c"])), of(&[]));
    }
}
