//! What can go wrong.

use std::fmt;

use redis::RedisError;

/// Why a lock was not acquired, or not released.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Error {
    /// Somebody else had the lock until the wait was over. Nothing of the request is left.
    NotAcquired,
    /// The lock was lost before it was released: its lease was over, or somebody took it away.
    /// Somebody else may have worked under it since.
    NotHeld,
    /// The wait closed a cycle of owners that wait for each other, and was refused. The text names the cycle.
    Deadlock(String),
    /// So many replicas have not acknowledged the grant in time; it has been undone.
    NoReplicas(String),
    /// Another error of the server.
    Refused {
        /// Its first word, such as `WRONGTYPE`.
        code: String,
        /// The rest of it.
        text: String,
    },
    /// The wait was ended by a [`Cancel`](crate::sync::Cancel). Nothing of the request is left, or will be soon.
    #[cfg(feature = "sync")]
    Cancelled,
    /// The server was out of reach until the time was over: redis-rs's own error.
    Connection(RedisError),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAcquired => f.write_str("somebody else holds the lock"),
            Self::NotHeld => f.write_str("the lock was lost before it was released"),
            Self::Deadlock(text) => write!(f, "deadlock: {text}"),
            Self::NoReplicas(text) => write!(f, "not enough replicas: {text}"),
            Self::Refused { code, text } => write!(f, "the server refused it: {code} {text}"),
            #[cfg(feature = "sync")]
            Self::Cancelled => f.write_str("the wait was cancelled"),
            Self::Connection(error) => write!(f, "the server is out of reach: {error}"),
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
    /// An error that came from the server gets the variant of its code, any other is [`Error::Connection`].
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
