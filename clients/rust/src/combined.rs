//! Several locks at once: of several slots of a cluster, or of several servers. They are acquired one after the other, in an
//! order that is the same in all programs.

use std::fmt;
use std::sync::{Arc, Mutex};

use crate::hold::OnLost;
use crate::lock::Lock;
use crate::spec::Kind;
use crate::util::locked;
use crate::{Error, Result};

/// Several locks, of one factory or of several, that are acquired together: all of them or none.
///
/// They are acquired one after the other: in the order of their servers' names, which are those that the program gave,
/// then of their slots and their keys. If all programs name the servers alike, those that wait in this way do not wait for
/// each other in a cycle; the servers do not detect cycles between them. If one of the locks is lost while another one is
/// waited for, all are released, and the acquisition begins again with the time that is left.
#[must_use = "a lock does nothing until it is acquired"]
pub struct Combined<C> {
    pub(crate) members: Vec<Lock<C>>,
    pub(crate) on_lost: Option<OnLost>,
}

impl<C> Clone for Combined<C> {
    fn clone(&self) -> Self {
        Self { members: self.members.clone(), on_lost: self.on_lost.clone() }
    }
}

impl<C> fmt::Debug for Combined<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Combined")?;
        f.debug_list().entries(&self.members).finish()
    }
}

impl<C> Combined<C> {
    /// Calls this function once when one of the locks is lost, as [`Lock::on_lost`] does.
    pub fn on_lost(mut self, call: impl Fn() + Send + Sync + 'static) -> Self {
        self.on_lost = Some(Arc::new(call));
        self.members.iter_mut().for_each(|member| member.spec.watch = true);
        self
    }
}

/// Where a lock is: the name of its server, its slot and its database.
pub(crate) type Place = (String, u16, i64);

/// The locks in the order in which they are acquired.
pub(crate) fn ordered<C>(mut placed: Vec<(Place, Lock<C>)>) -> Result<Vec<Lock<C>>> {
    let invalid = |lock: String, text| Err(Error::InvalidOption { lock, text: String::from(text) });
    let smallest = |lock: &Lock<C>| lock.spec.keys.iter().min().cloned();
    // The database is last, because other packages know the order without it.
    placed.sort_by_cached_key(|((server, slot, database), lock)| {
        (server.clone(), *slot, smallest(lock), lock.spec.kind, *database)
    });
    for (number, (place, lock)) in placed.iter().enumerate() {
        // Different permits of a semaphore can be held at the same time, other locks of a key cannot.
        let is_same = |other: &Lock<C>| {
            let both_permit = [lock.spec.kind, other.spec.kind] == [Kind::Semaphore; 2];
            let same_permits = lock.spec.permits == other.spec.permits && lock.spec.limit == other.spec.limit;
            (!both_permit || same_permits) && other.spec.keys.iter().any(|key| lock.spec.keys.contains(key))
        };
        if placed[number + 1..].iter().any(|(at, other)| at == place && is_same(other)) {
            return invalid(lock.spec.to_string(), "members: a key of one server is in two of them");
        }
    }
    if placed.is_empty() {
        return invalid("combined lock".into(), "members must not be empty");
    }
    Ok(placed.into_iter().map(|(_, lock)| lock).collect())
}

/// Whether one of several holds is lost.
#[derive(Default)]
pub(crate) struct Loss(Mutex<LossState>);

#[derive(Default)]
struct LossState {
    is_lost: bool,
    /// Whether the program has the holds.
    is_armed: bool,
}

/// What follows the loss of one of several holds.
pub(crate) enum Lost {
    /// The others are still being acquired: that ends.
    Waiting,
    /// It is reported.
    First,
    /// Another one was reported.
    Again,
}

impl Loss {
    pub fn lose(&self) -> Lost {
        let mut state = locked(&self.0);
        match (std::mem::replace(&mut state.is_lost, true), state.is_armed) {
            (_, false) => Lost::Waiting,
            (false, true) => Lost::First,
            (true, true) => Lost::Again,
        }
    }

    /// From now on the program has the holds. Returns false if one was lost before.
    pub fn arm(&self) -> bool {
        let mut state = locked(&self.0);
        state.is_armed = !state.is_lost;
        state.is_armed
    }
}

/// The result of a release of several holds: if one of them was lost, that is reported.
pub(crate) fn worse(one: Result<()>, other: Result<()>) -> Result<()> {
    match (one, other) {
        (Err(error @ Error::NotHeld { .. }), _) | (Ok(()), Err(error)) | (_, Err(error @ Error::NotHeld { .. })) => {
            Err(error)
        }
        (one, _) => one,
    }
}

/// The acquisition of several locks, and their guard.
macro_rules! combined {
    ([$($async:ident)?] [$($await:tt)*]) => {
        impl Lock {
            /// Acquires it; of a multi-key lock in a cluster, the keys of one slot after those of the other.
            pub(super) $($async)? fn acquire(&self, wait: Wait) -> Result<Guard> {
                match &self.split()[..] {
                    [] => Ok(Guard::of(vec![self.acquire_one(wait)$($await)*?])),
                    groups => {
                        self.core.shared.check(&self.spec)?;
                        acquire_all(groups, self.on_lost.as_ref(), wait)$($await)*
                    }
                }
            }

            /// A lock for the keys of each slot; none if there is only one.
            fn split(&self) -> Vec<Self> {
                let Some(groups) = self.core.pool.nodes.groups(&self.spec) else { return Vec::new() };
                let of = |spec| Self { spec, on_lost: None, ..self.clone() };
                groups.into_iter().map(of).collect()
            }
        }

        impl Combined {
            /// Acquires all of these locks, and waits for them without a limit.
            ///
            /// # Errors
            ///
            /// [`InvalidOption`](crate::Error::InvalidOption): no lock, or a key of one server in two of them; those of
            /// [`Lock::lock`], of the lock that was not acquired.
            pub $($async)? fn lock(&self) -> Result<Guard> {
                self.acquire(Wait::forever())$($await)*
            }

            /// Acquires them if all are free now.
            ///
            /// # Errors
            ///
            /// Those of [`lock`](Self::lock) and of [`Lock::try_lock`].
            pub $($async)? fn try_lock(&self) -> Result<Guard> {
                self.acquire(Wait::at_most(Duration::ZERO))$($await)*
            }

            /// Acquires them, and waits for this time at most.
            ///
            /// # Errors
            ///
            /// Those of [`lock`](Self::lock) and of [`Lock::lock_for`].
            pub $($async)? fn lock_for(&self, time: Duration) -> Result<Guard> {
                self.acquire(Wait::at_most(time))$($await)*
            }

            $($async)? fn acquire(&self, wait: Wait) -> Result<Guard> {
                let mut placed = Vec::new();
                for member in &self.members {
                    member.core.shared.check(&member.spec)?;
                    let groups = member.split();
                    let locks = if groups.is_empty() { vec![member.clone()] } else { groups };
                    placed.extend(locks.into_iter().map(|lock| (lock.core.pool.nodes.place(lock.spec.key()), lock)));
                }
                acquire_all(&ordered(placed)?, self.on_lost.as_ref(), wait)$($await)*
            }
        }

        /// Acquires these locks in their order: all of them or none.
        $($async)? fn acquire_all(members: &[Lock], on_lost: Option<&OnLost>, wait: Wait) -> Result<Guard> {
            let is_spread = members.iter().any(|member| !Arc::ptr_eq(&member.core, &members[0].core));
            let mut members = members.to_vec();
            members.iter_mut().for_each(|member| member.spec.is_spread = is_spread);
            let members = &members[..];
            loop {
                let round = Round::new(members, on_lost);
                let (mut held, mut error) = (Vec::new(), None);
                for member in members {
                    match round.acquire(member, wait)$($await)* {
                        Some(Ok(one)) => held.push(one),
                        Some(Err(one)) => error = Some(one),
                        None => {}
                    }
                    if error.is_some() || round.is_interrupted() {
                        break;
                    }
                }
                let is_complete = held.len() == members.len() && held.iter().all(Held::is_held) && round.loss.arm();
                if is_complete {
                    return Ok(Guard::of(held));
                }
                give_back(held, wait.return_by())$($await)*;
                if let Some(error) = error {
                    return Err(error);
                }
            }
        }

        impl Round {
            /// A member whose loss interrupts the acquisition, and is reported once when the program has the guard.
            fn member(&self, member: &Lock) -> Lock {
                let (loss, on_lost, own) = (self.loss.clone(), self.on_lost.clone(), member.on_lost.clone());
                let interrupt = self.interrupt();
                let on_lost: OnLost = Arc::new(move || {
                    let called = match loss.lose() {
                        Lost::Waiting => return interrupt(),
                        Lost::First => on_lost.iter().chain(&own),
                        Lost::Again => None.iter().chain(&own),
                    };
                    called.for_each(|call| call());
                });
                Lock { on_lost: Some(on_lost), ..member.clone() }
            }
        }

        impl Guard {
            pub(super) fn of(held: Vec<Held>) -> Self {
                Self { held }
            }

            /// The locks that it holds, in the order of their acquisition: one, or those of a [`Combined`] lock, or of a
            /// multi-key lock in several slots.
            pub fn holds(&self) -> &[Held] {
                &self.held
            }

            /// The name of the owner, `host:pid:random`; of several locks, of the first one.
            pub fn owner(&self) -> &str {
                self.held.first().map_or("", Held::owner)
            }

            /// The lock's key, or keys.
            pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
                self.held.iter().flat_map(Held::keys)
            }

            /// The fencing token, if the lock is [fenced](crate::Lock::fenced). Of several locks, each has its own.
            pub fn token(&self) -> Option<u64> {
                match &self.held[..] {
                    [one] => one.token(),
                    _ => None,
                }
            }

            /// How many permits of a semaphore it holds; 1 for a lock.
            pub fn permits(&self) -> u32 {
                self.held.first().map_or(1, Held::permits)
            }

            /// Whether the lock, or one of several, is known to be lost: the server reported it, or the hold was not
            /// confirmed for as long as its lease.
            pub fn is_lost(&self) -> bool {
                // A factory that is closed releases its own.
                self.held.iter().any(|one| one.is_lost() || self.held.len() > 1 && !one.is_held())
            }

            /// Renews the lease now, besides the renewals in the background: a lock with
            /// [`no_renewal`](crate::Lock::no_renewal) is renewed only by this. Of a session it checks that it is held.
            ///
            /// # Errors
            ///
            /// [`NotHeld`](crate::Error::NotHeld) if it was lost, [`Connection`](crate::Error::Connection) if the server
            /// has not replied within two seconds, [`NoReplicas`](crate::Error::NoReplicas),
            /// [`Refused`](crate::Error::Refused).
            pub $($async)? fn renew(&self) -> Result<()> {
                self.renewed(None)$($await)*
            }

            /// The same with another lease, which the hold has from now on. A shorter one applies even if the server does
            /// not reply, a longer one only when it has.
            ///
            /// # Errors
            ///
            /// Those of [`renew`](Self::renew); [`InvalidOption`](crate::Error::InvalidOption) if it is below a millisecond,
            /// or if the hold is a session's, which has no lease.
            pub $($async)? fn renew_for(&self, lease: Duration) -> Result<()> {
                self.renewed(Some(capped(lease)))$($await)*
            }

            $($async)? fn renewed(&self, lease: Option<Duration>) -> Result<()> {
                let mut result = Ok(());
                for one in &self.held {
                    result = worse(result, one.renewed(lease)$($await)*);
                }
                result
            }

            /// Executes a command of redis-rs on the server of the lock, if the lock is held at that moment; of several
            /// keys, if the first one is. In a cluster, the keys of the command must be in the slot of that key. It is not
            /// repeated: after a lost connection it may have been executed.
            ///
            /// # Errors
            ///
            /// [`NotHeld`](crate::Error::NotHeld), [`Connection`](crate::Error::Connection), and
            /// [`Refused`](crate::Error::Refused) with another error of the command, or if the reply is not a `T`.
            pub $($async)? fn guard<T: FromRedisValue>(&self, command: &Cmd) -> Result<T> {
                self.held[0].guard(command)$($await)*
            }
        }

        impl std::fmt::Debug for Guard {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut shown = f.debug_struct("Guard");
                shown.field("owner", &self.owner()).field("is_lost", &self.is_lost()).finish_non_exhaustive()
            }
        }

        impl Drop for Guard {
            fn drop(&mut self) {
                while let Some(one) = self.held.pop() {
                    drop(one);
                }
            }
        }
    };
}
pub(crate) use combined;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Spec;

    #[test]
    fn locks_are_ordered_by_server_slot_and_key() {
        let lock = |kind, key: &str| {
            let spec = Spec::new(kind, vec![key.into()]);
            Lock {
                core: Arc::new(()),
                spec,
                on_lost: None,
                #[cfg(feature = "sync")]
                cancel: None,
            }
        };
        let at = |server: &str, slot, lock| ((String::from(server), slot, 0), lock);
        let named = |placed| {
            let locks: Vec<Lock<()>> = ordered(placed)?;
            Ok::<_, Error>(locks.iter().map(|lock| lock.spec.to_string()).collect::<Vec<_>>())
        };
        let placed = vec![
            at("b:1", 0, lock(Kind::Lock, "a")),
            at("a:2", 7, lock(Kind::Lock, "b")),
            at("a:2", 7, lock(Kind::Write, "a")),
            at("a:2", 3, lock(Kind::Lock, "c")),
        ];
        assert_eq!(named(placed).unwrap(), ["lock \"c\"", "write lock \"a\"", "lock \"b\"", "lock \"a\""]);
        let twice = |one, other| named(vec![at("a", 0, lock(one, "a")), at("a", 0, lock(other, "a"))]).is_err();
        assert!(twice(Kind::Lock, Kind::Fair) && twice(Kind::Semaphore, Kind::Semaphore));
        assert!(named(vec![at("a", 0, lock(Kind::Lock, "a")), at("b", 0, lock(Kind::Lock, "a"))]).is_ok());
        let databases = [1, 0].map(|database| ((String::from("a"), 0, database), lock(Kind::Lock, "a")));
        assert!(named(databases.into()).is_ok());
        assert!(named(Vec::new()).is_err());
    }

    #[test]
    fn a_loss_before_the_program_has_the_holds_is_not_reported() {
        let loss = Loss::default();
        assert!(matches!(loss.lose(), Lost::Waiting));
        assert!(!loss.arm());
        assert!(matches!(loss.lose(), Lost::Waiting));
        let loss = Loss::default();
        assert!(loss.arm());
        assert!(matches!((loss.lose(), loss.lose()), (Lost::First, Lost::Again)));
    }
}
