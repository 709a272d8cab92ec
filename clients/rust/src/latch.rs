//! Latches: any number of clients wait until something was counted down.

use std::fmt;

use crate::lock::{Factory, Lock};
use crate::spec::Kind;

/// Waits until something has been done a given number of times: all workers are ready, or all parts are loaded.
///
/// Any client may set the latch, count it down or wait for it; it has no owner. A latch that was not set is open.
pub struct Latch<C> {
    /// The factory, the key, and what cancels a wait.
    pub(crate) lock: Lock<C>,
}

impl<C> Clone for Latch<C> {
    fn clone(&self) -> Self {
        Self { lock: self.lock.clone() }
    }
}

impl<C> fmt::Debug for Latch<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Latch({})", self.lock.spec)
    }
}

impl<C> Factory<C> {
    /// A latch (`LATCH.SET`, `LATCH.DOWN`, `LATCH.WAIT`).
    pub fn latch(&self, key: impl AsRef<[u8]>) -> Latch<C> {
        Latch { lock: self.make(Kind::Latch, vec![key.as_ref().to_vec()]) }
    }
}

/// What is done with a latch.
macro_rules! latch {
    ([$($async:ident)?] [$($await:tt)*]) => {
        impl Latch {
            /// Sets how often the latch is to be counted down, whatever it was before; 0 opens it. With a lease it opens
            /// when this time has passed, because the client that should count it down may have died. It is not repeated:
            /// after a lost connection it may have been executed, and a second time would undo what was counted down
            /// since.
            ///
            /// # Errors
            ///
            /// [`InvalidOption`](Error::InvalidOption), [`Connection`](Error::Connection) if the server has not replied
            /// within two seconds, [`ModuleMissing`](Error::ModuleMissing), [`Closed`](Error::Closed),
            /// [`Refused`](Error::Refused).
            pub $($async)? fn set(&self, count: u64, lease: Option<Duration>) -> Result<()> {
                let spec = &self.lock.spec;
                spec.check_renewal(lease)?;
                let mut command = spec.named("LATCH.SET");
                command.arg(count);
                if let Some(lease) = lease {
                    command.arg("PX").arg(in_ms(capped(lease)));
                }
                self.lock.core.request(spec, spec.key(), &command, true)$($await)*.map(drop)
            }

            /// Counts it down by one, and returns what is left; at 0 it opens. It is not repeated: after a lost connection
            /// it may have been executed.
            ///
            /// # Errors
            ///
            /// Those of [`set`](Self::set).
            pub $($async)? fn count_down(&self) -> Result<u64> {
                self.count_down_by(1)$($await)*
            }

            /// The same by another number than one.
            ///
            /// # Errors
            ///
            /// Those of [`set`](Self::set).
            pub $($async)? fn count_down_by(&self, by: u64) -> Result<u64> {
                let spec = &self.lock.spec;
                if by == 0 {
                    return Err(spec.invalid("by must be at least 1, not 0"));
                }
                let mut command = spec.named("LATCH.DOWN");
                command.arg(by);
                let reply = self.lock.core.request(spec, spec.key(), &command, true)$($await)*?;
                spec.read(reply, &self.lock.core.pool.nodes)
            }

            /// How often it is still to be counted down; 0 if it is open.
            ///
            /// # Errors
            ///
            /// Those of [`set`](Self::set).
            pub $($async)? fn count(&self) -> Result<u64> {
                let spec = &self.lock.spec;
                let reply = self.lock.core.request(spec, spec.key(), &spec.named("GET"), false)$($await)*?;
                let count: Option<i64> = spec.read(reply, &self.lock.core.pool.nodes)?;
                Ok(count.and_then(|count| count.try_into().ok()).unwrap_or_default())
            }

            /// Waits until it is open, without a limit. Like a wait for a lock, it survives outages.
            ///
            /// # Errors
            ///
            /// [`Connection`](Error::Connection) if no connection ever succeeded;
            /// [`ModuleMissing`](Error::ModuleMissing), [`Closed`](Error::Closed), [`Refused`](Error::Refused); in threads,
            /// [`Cancelled`](Error::Cancelled).
            pub $($async)? fn wait(&self) -> Result<()> {
                self.opened(Wait::forever())$($await)*
            }

            /// The same for this time at most. Returns whether the latch has opened.
            ///
            /// # Errors
            ///
            /// Those of [`wait`](Self::wait).
            pub $($async)? fn wait_for(&self, time: Duration) -> Result<bool> {
                match self.opened(Wait::at_most(time))$($await)* {
                    Err(Error::NotAcquired(_)) => Ok(false),
                    result => result.map(|()| true),
                }
            }
        }
    };
}
pub(crate) use latch;
