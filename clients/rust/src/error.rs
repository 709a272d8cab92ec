//! The errors.

use std::fmt;
use std::time::Duration;

use redis::RedisError;

use crate::spec::process;
use crate::util::at_least_1_ms;

/// Why a lock was not acquired, or not released. The text names the lock: `lock "report" was not acquired within 3 s`.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Error {
    /// An option of the lock or of its factory is invalid. Nothing was sent.
    #[non_exhaustive]
    InvalidOption {
        /// The lock, or `RedLock` or `Settings`.
        lock: String,
        /// Which option, and why.
        text: String,
    },
    /// The lock was not acquired until the wait timed out. Nothing of the request is left on the server, or soon.
    NotAcquired(Box<NotAcquired>),
    /// The lock was lost before it was released: its lease expired, or another client removed it; another owner may have
    /// held it since. Or it was released before.
    #[non_exhaustive]
    NotHeld {
        /// The lock.
        lock: String,
        /// What is known about the reason.
        why: String,
    },
    /// The wait would have closed a cycle of owners that wait for each other. The text names the cycle.
    #[non_exhaustive]
    Deadlock {
        /// The lock.
        lock: String,
        /// The server's error.
        error: RedisError,
    },
    /// Too few replicas acknowledged the grant in time; the lock is not held.
    #[non_exhaustive]
    NoReplicas {
        /// The lock.
        lock: String,
        /// The server's error.
        error: RedisError,
    },
    /// The server does not know the commands: lock.so is not loaded there.
    #[non_exhaustive]
    ModuleMissing {
        /// The lock.
        lock: String,
        /// The address of the server.
        address: String,
    },
    /// Another error reply of the server, such as `WRONGTYPE`.
    #[non_exhaustive]
    Refused {
        /// The lock.
        lock: String,
        /// The server's error.
        error: RedisError,
    },
    /// The wait was cancelled by a `sync::Cancel`. Nothing of the request is left on the server, or soon.
    #[non_exhaustive]
    Cancelled {
        /// The lock.
        lock: String,
    },
    /// The server could not be reached: redis-rs's own error.
    #[non_exhaustive]
    Connection {
        /// The lock.
        lock: String,
        /// The error.
        error: RedisError,
    },
    /// The factory has been closed.
    #[non_exhaustive]
    Closed {
        /// The lock.
        lock: String,
    },
}

/// What is known about a wait that timed out.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct NotAcquired {
    /// The lock.
    pub lock: String,
    /// How long the wait was; zero if the lock was only tried.
    pub waited: Duration,
    /// The owners that hold the lock, if they are known.
    pub holders: Vec<String>,
    /// redis-rs's error, if the server could not be reached at the end.
    pub cause: Option<RedisError>,
}

impl fmt::Display for NotAcquired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} was not acquired", self.lock)?;
        if !self.waited.is_zero() {
            write!(f, " within {} s", at_least_1_ms(self.waited) as f64 / 1000.0)?;
        }
        // A holder of this process may be the waiter itself.
        let process = process();
        let named = |owner: &String| match owner.starts_with(&process) {
            true => format!("{owner} (this process)"),
            false => owner.clone(),
        };
        let holders: Vec<String> = self.holders.iter().take(2).map(named).collect();
        match (&self.cause, &holders[..], self.holders.len().saturating_sub(2)) {
            (Some(cause), _, _) => write!(f, ": {cause}"),
            (None, [], _) => Ok(()),
            (None, [one, other], 1) => write!(f, ": held by {one}, {other} and 1 other"),
            (None, [one, other], others @ 2..) => write!(f, ": held by {one}, {other} and {others} others"),
            (None, some, _) => write!(f, ": held by {}", some.join(" and ")),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidOption { text, .. } => f.write_str(text),
            Self::NotAcquired(error) => error.fmt(f),
            Self::NotHeld { lock, why } => write!(f, "{lock} is not held: {why}"),
            Self::ModuleMissing { lock, address } => {
                write!(f, "{lock}: unknown command: is lock.so loaded on {address}?")
            }
            Self::Deadlock { lock, error } | Self::NoReplicas { lock, error } | Self::Refused { lock, error } => {
                match error.code() {
                    Some(code) => write!(f, "{lock}: {code} {}", error.detail().unwrap_or_default()),
                    None => write!(f, "{lock}: {error}"),
                }
            }
            Self::Cancelled { lock } => write!(f, "{lock}: the wait was cancelled"),
            Self::Connection { lock, error } => write!(f, "{lock}: no connection: {error}"),
            Self::Closed { lock } => write!(f, "{lock}: these locks are closed"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Connection { error, .. }
            | Self::Deadlock { error, .. }
            | Self::NoReplicas { error, .. }
            | Self::Refused { error, .. } => Some(error),
            Self::NotAcquired(error) => error.cause.as_ref().map(|cause| cause as _),
            _ => None,
        }
    }
}
