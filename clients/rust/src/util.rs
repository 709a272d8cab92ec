//! Pauses, time limits of waits, and the interpretation of replies.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use redis::{Cmd, ErrorKind, RedisError, RedisResult, Value};

use crate::spec::{Kind, Spec};

/// How long a short command, or a new connection, may take.
pub(crate) const SHORT: Duration = Duration::from_secs(1);
/// How long a request that waits for nothing may take, with its repetitions.
pub(crate) const REQUEST: Duration = Duration::from_secs(2);
/// How much longer than its `BLOCK` a blocking command may take before its server is considered unreachable.
pub(crate) const SLACK: Duration = Duration::from_secs(2);
/// How late an acquisition ends at most. The reply to its last request is waited for until [`REPLY_TOLERANCE`], and the rest
/// is for giving up and for the names of the holders.
pub(crate) const TOLERANCE: Duration = Duration::from_millis(100);
pub(crate) const REPLY_TOLERANCE: Duration = Duration::from_millis(60);
/// How long a request that is given up is cancelled at least.
pub(crate) const CANCELLING: Duration = Duration::from_secs(2);
/// After this time without use, a network may have dropped a connection without notice.
pub(crate) const STALE: Duration = Duration::from_secs(30);
/// After this time a request that may have been delayed is cancelled once more.
pub(crate) const CLEAR_AGAIN: Duration = Duration::from_millis(150);

/// Locks a mutex, also after a panic, because a panic leaves nothing here in an inconsistent state.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The pauses between attempts: from 20 ms to half a second.
pub(crate) struct Pause(Duration);

impl Pause {
    pub fn new() -> Self {
        Self(Duration::from_millis(20))
    }

    /// The next pause, limited by `end`; `None` at `end`.
    pub fn next(&mut self, end: Option<Instant>) -> Option<Duration> {
        let pause = self.0;
        self.0 = (pause * 2).min(Duration::from_millis(500));
        match end.map(left) {
            Some(Duration::ZERO) => None,
            left => Some(left.map_or(pause, |left| left.min(pause))),
        }
    }
}

/// How long a wait lasts.
#[derive(Clone, Copy)]
pub(crate) struct Wait {
    began: Instant,
    time: Duration,
    end: Option<Instant>,
}

/// One blocking call of a wait.
#[derive(Debug, PartialEq)]
pub(crate) struct Call {
    /// Its `BLOCK`; `None` leaves it out.
    pub block: Option<u64>,
    /// When its reply must have been received.
    pub by: Instant,
    /// Whether it is ended by closing the connection, not by its `BLOCK`.
    pub is_cut: bool,
    /// Whether a server without a reply by then is unresponsive, and not only slow.
    pub is_long: bool,
}

impl Wait {
    pub fn forever() -> Self {
        Self { began: Instant::now(), time: Duration::MAX, end: None }
    }

    /// For this time at most; zero only tries.
    pub fn at_most(time: Duration) -> Self {
        let (began, time) = (Instant::now(), capped(time));
        Self { began, time, end: Some(began + time) }
    }

    pub fn began(&self) -> Instant {
        self.began
    }

    /// How long it has taken, without the time by which it may end late; zero for a try.
    pub fn time(&self) -> Duration {
        self.began.elapsed().min(self.time)
    }

    pub fn only_tries(&self) -> bool {
        self.time.is_zero()
    }

    /// Whether a blocking read would end too late: Linux rounds its time up, by up to an eighth.
    #[cfg(feature = "sync")]
    pub fn is_long(&self) -> bool {
        self.end.is_some() && self.time > SHORT / 2
    }

    /// For a try this is its beginning: it has only the time by which a wait may end late.
    pub fn end(&self) -> Option<Instant> {
        self.end
    }

    /// By when an acquisition returns that gives up now.
    pub fn return_by(&self) -> Instant {
        match self.end {
            Some(end) if self.has_timed_out() => end + TOLERANCE - TOLERANCE / 10,
            _ => Instant::now() + REPLY_TOLERANCE,
        }
    }

    /// Whether it has timed out.
    pub fn has_timed_out(&self) -> bool {
        self.end.is_some_and(|end| Instant::now() >= end)
    }

    /// The next blocking call. The `BLOCK` of a fair wait is all that is left, because the waiter keeps its place when
    /// the connection closes, but not when its `BLOCK` times out.
    pub fn next_call(&self, max_block: Duration, spec: &Spec) -> Call {
        self.call_at(Instant::now(), max_block, spec.kind == Kind::Fair)
    }

    fn call_at(&self, now: Instant, max_block: Duration, fair: bool) -> Call {
        let left = self.end.map(|end| end.saturating_duration_since(now));
        let is_last = left.is_some_and(|left| left <= max_block);
        let block = match left {
            _ if self.only_tries() => None,
            Some(left) if is_last || fair => Some(at_least_1_ms(left)),
            None if fair => Some(0),
            _ => Some(at_least_1_ms(max_block)),
        };
        let by = now + max_block + if fair { Duration::ZERO } else { SLACK };
        match self.end.map(|end| end + REPLY_TOLERANCE) {
            Some(end) if is_last || end < by => Call { block, by: end, is_cut: fair && !is_last, is_long: false },
            _ => Call { block, by, is_cut: fair, is_long: !fair },
        }
    }
}

impl Call {
    /// Its command.
    pub fn sent(&self, spec: &Spec, owner: &str) -> Sent {
        let by = self.by + spec.replicas_time();
        Sent { command: spec.acquire(owner, self.block), by, is_long: self.is_long, once: false, behind: None }
    }
}

/// A command, and by when its reply must have been received.
pub(crate) struct Sent {
    pub command: Cmd,
    pub by: Instant,
    /// Whether a server without a reply by then is unresponsive, and not only slow.
    pub is_long: bool,
    /// Whether it must not be executed twice, so it is not sent again if its connection was lost.
    pub once: bool,
    /// What is sent behind it, on the same connection, if its reply has not been received in time.
    pub behind: Option<Cmd>,
}

/// At most a hundred years: with longer times, clocks overflow.
pub(crate) fn capped(time: Duration) -> Duration {
    time.min(Duration::from_secs(36_500 * 86_400))
}

/// In milliseconds, rounded up.
pub(crate) fn in_ms(time: Duration) -> u64 {
    time.as_micros().div_ceil(1000) as u64
}

/// The same; never 0, which would mean no limit.
pub(crate) fn at_least_1_ms(time: Duration) -> u64 {
    in_ms(time).max(1)
}

/// The meaning of a reply.
pub(crate) enum Verdict {
    /// The lock was granted, released or renewed, or the wait ended: with this number.
    Done(i64),
    /// Null: not granted in time.
    Null,
    /// A transient error: to be sent again, on another connection.
    Again(RedisError),
    /// Another error: not to be sent again.
    Never(RedisError),
}

/// The meaning of a reply to any of the lock commands.
pub(crate) fn judge(reply: RedisResult<Value>) -> Verdict {
    match reply {
        Ok(Value::Int(number)) => Verdict::Done(number),
        Ok(Value::Nil) => Verdict::Null,
        Ok(other) => Verdict::Never(
            (ErrorKind::UnexpectedReturnType, "not a reply of a lock command", format!("{other:?}")).into(),
        ),
        Err(error) if again(&error) => Verdict::Again(error),
        Err(error) => Verdict::Never(error),
    }
}

pub(crate) fn is_not_held(error: &RedisError) -> bool {
    error.code() == Some("NOTHELD")
}

/// Whether the error is transient: the server cannot be reached, is not the master any more, or is not ready yet.
pub(crate) fn again(error: &RedisError) -> bool {
    const CODES: [&str; 8] =
        ["READONLY", "UNBLOCKED", "LOADING", "CLUSTERDOWN", "TRYAGAIN", "MASTERDOWN", "MOVED", "ASK"];
    match error.kind() {
        ErrorKind::Io | ErrorKind::Parse | ErrorKind::ClusterConnectionNotFound | ErrorKind::Client => true,
        _ => error.code().is_some_and(|code| CODES.contains(&code)) || is_full(error),
    }
}

/// Whether the server has as many clients as it accepts. It replies so to a new connection.
pub(crate) fn is_full(error: &RedisError) -> bool {
    error.detail().is_some_and(|text| text.contains("max number of clients"))
}

/// Whether this is the error of a server without the module. That for an unknown command in LOCK.GUARD is another one.
pub(crate) fn is_unknown(error: &RedisError) -> bool {
    let name = error.detail().and_then(|text| text.strip_prefix("unknown command ")).and_then(|rest| rest.get(1..));
    let is_ours = |name: &str| ["LOCK.", "LATCH.", "DELAY."].iter().any(|family| name.starts_with(family));
    error.code() == Some("ERR") && name.is_some_and(is_ours)
}

/// Whether the reply was lost, or may still come.
pub(crate) fn is_lost(error: &RedisError) -> bool {
    matches!(error.kind(), ErrorKind::Io | ErrorKind::Parse)
}

/// Whether this transient error shows nothing bad about the server: it is slow or full, or there was no free place here.
/// Then its idle connections are good, and it is the right one. `is_long`: it had a second.
pub(crate) fn is_slow(error: &RedisError, is_long: bool) -> bool {
    is_full(error) || is_busy(error) || error.is_timeout() && !is_long
}

/// The error if there was no free place in time.
pub(crate) fn busy(is_short: bool) -> RedisError {
    let text = if is_short { "too many connections are in use" } else { "too many connections are being opened" };
    (ErrorKind::Client, text).into()
}

/// Whether it is such an error: nothing was sent, and the server has no part in it.
pub(crate) fn is_busy(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Client
}

/// The connection error for a time-out that was detected here.
pub(crate) fn timed_out() -> RedisError {
    std::io::Error::new(std::io::ErrorKind::TimedOut, "the server has not replied in time").into()
}

/// How much time is left until then.
pub(crate) fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}

/// By when the check of a stale connection must have succeeded, if a new one may be needed until `until`.
pub(crate) fn checked_by(until: Instant) -> Instant {
    Instant::now() + (left(until) / 2).min(Duration::from_millis(500))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_end_with_their_wait() {
        let ms = Duration::from_millis;
        let wait = Wait::at_most(ms(1000));
        let call =
            |block, by: u64, is_cut, is_long| Call { block: Some(block), by: wait.began + ms(by), is_cut, is_long };
        let at = |now: u64, max_block, fair| wait.call_at(wait.began + ms(now), ms(max_block), fair);
        assert_eq!(at(0, 5000, true), call(1000, 1060, false, false));
        assert_eq!(at(700, 5000, false), call(300, 1060, false, false));
        assert_eq!(at(1050, 5000, false), call(1, 1060, false, false), "a late call has no more time");
        assert_eq!(at(0, 400, false), call(400, 1060, false, false), "the wait has no more time");
        assert_eq!(at(0, 400, true), call(1000, 400, true, false));
        assert_eq!(at(950, 40, true), call(50, 990, true, false));
        let wait = Wait { began: wait.began, ..Wait::at_most(ms(9000)) };
        let at = |now: u64, max_block, fair| wait.call_at(wait.began + ms(now), ms(max_block), fair);
        assert_eq!(at(0, 400, false), call(400, 2400, false, true));
        let wait = Wait::at_most(Duration::ZERO);
        let tried = wait.call_at(wait.began + ms(30), ms(400), true);
        assert_eq!(tried, Call { block: None, by: wait.began + ms(60), is_cut: false, is_long: false });
        let wait = Wait::forever();
        assert_eq!(wait.call_at(wait.began, ms(400), true).block, Some(0));
    }

    /// `again` depends on `RedisError::code`, also for errors that have a kind of their own in redis-rs.
    #[test]
    fn transient_errors_are_recognized() {
        let is_again = |code: &str| {
            let reply = format!("-{code} 1 10.0.0.1:1\r\n");
            let error = redis::parse_redis_value(reply.as_bytes()).unwrap().extract_error().unwrap_err();
            assert_eq!(error.code(), Some(code));
            again(&error)
        };
        let passing =
            ["READONLY", "UNBLOCKED", "LOADING", "CLUSTERDOWN", "TRYAGAIN", "MASTERDOWN", "MOVED", "ASK"].map(is_again);
        assert_eq!(passing, [true; 8]);
        let others = ["NOTHELD", "DEADLOCK", "NOREPLICAS", "WRONGTYPE", "CROSSSLOT", "NOPERM", "ERR"].map(is_again);
        assert_eq!(others, [false; 7]);
    }
}
