//! The errors.

use std::fmt;

use redis::RedisError;

/// Why a lock was not acquired, or not released.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Error {
    /// Another owner held the lock until the wait timed out. Nothing of the request is left on the server.
    NotAcquired,
    /// The lock was lost before it was released: its lease expired, or another client removed it.
    /// Another owner may have held it since.
    NotHeld,
    /// The wait would have closed a cycle of owners that wait for each other. The text names the cycle.
    Deadlock(String),
    /// Too few replicas acknowledged the grant in time; the lock is not held.
    NoReplicas(String),
    /// Another error reply of the server.
    Refused {
        /// The first word of the error, such as `WRONGTYPE`.
        code: String,
        /// The rest of the error.
        text: String,
    },
    /// A [`Cancel`](crate::sync::Cancel) ended the wait. Nothing of the request is left on the server, or soon.
    #[cfg(feature = "sync")]
    Cancelled,
    /// The server could not be reached until the wait timed out: redis-rs's own error.
    Connection(RedisError),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAcquired => f.write_str("another owner holds the lock"),
            Self::NotHeld => f.write_str("the lock was lost before it was released"),
            Self::Deadlock(text) => write!(f, "deadlock: {text}"),
            Self::NoReplicas(text) => write!(f, "not enough replicas: {text}"),
            Self::Refused { code, text } => write!(f, "refused by the server: {code} {text}"),
            #[cfg(feature = "sync")]
            Self::Cancelled => f.write_str("the wait was cancelled"),
            Self::Connection(error) => write!(f, "the server cannot be reached: {error}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Connection(error) => Some(error),
            _ => None,
        }
    }
}

impl From<RedisError> for Error {
    /// An error reply becomes the variant for its code, any other error [`Error::Connection`].
    fn from(error: RedisError) -> Self {
        let text = error.detail().unwrap_or_default().to_string();
        match error.code() {
            Some("NOTHELD") => Self::NotHeld,
            Some("DEADLOCK") => Self::Deadlock(text),
            Some("NOREPLICAS") => Self::NoReplicas(text),
            Some(code) => Self::Refused { code: code.to_string(), text },
            None => Self::Connection(error),
        }
    }
}
