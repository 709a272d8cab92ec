// Its examples need both.
#![cfg_attr(all(feature = "sync", feature = "tokio"), doc = include_str!("../README.md"))]
#![cfg_attr(not(all(feature = "sync", feature = "tokio")), doc = "Locks of lock.so, for threads or for tokio.")]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

#[cfg(not(any(feature = "sync", feature = "tokio")))]
compile_error!("lock-so needs the feature `sync` or `tokio`");

mod agenda;
mod both;
mod combined;
mod error;
mod hold;
mod idle;
mod info;
mod latch;
mod lock;
mod nodes;
mod queue;
mod redlock;
mod settings;
mod shared;
mod spec;
mod trial;
mod util;

#[cfg(feature = "tokio")]
pub mod aio;
#[cfg(feature = "sync")]
pub mod sync;

pub use combined::Combined;
pub use error::{Error, NotAcquired};
pub use info::{Holder, LockInfo, Waiter};
pub use latch::Latch;
pub use lock::{Factory, Lock};
pub use queue::{DelayedQueue, Job, Pending};
/// The version of redis-rs whose types are used here.
pub use redis;
pub use redlock::{MajorityLock, RedLock};
pub use settings::Settings;

/// What most of this crate's functions return.
pub type Result<T> = std::result::Result<T, Error>;
