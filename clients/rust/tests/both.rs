//! What the conformance suite cannot test of either flavour, written once for both.
#![cfg(all(feature = "sync", feature = "tokio"))]

#[allow(dead_code)] // The other tests need the rest.
mod common;
#[allow(dead_code)]
#[path = "common/wire.rs"]
mod wire;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use common::{cluster, until, Server};
use lock_so::{Error, Settings};
use redis::{cmd, Value};
use wire::Wire;

const SECOND: Duration = Duration::from_secs(1);

/// Waits for a lock by the library alone, until the server ends.
fn waits(server: &mut Server, command: &'static str, key: &'static str, owner: &'static str) {
    let mut own = server.client.get_connection().unwrap();
    thread::spawn(move || cmd(command).arg(key).arg(owner).arg("BLOCK").arg(0).query::<Value>(&mut own));
    server.waiters(1);
}

macro_rules! tests {
    ($flavour:ident, $test:meta, [$($async:ident)?] [$($await:tt)*]) => {
        mod $flavour {
            use lock_so::$flavour::{combine, Held, Locks, RedLock};
            use lock_so::LockInfo;

            use super::*;

            #[$test]
            $($async)? fn what_the_server_shows() {
                for protocol in ["", "?protocol=resp3"] {
                    let mut server = Server::start();
                    let address = format!("redis://{}/{protocol}", server.client.get_connection_info().addr());
                    let locks = Locks::new(&redis::Client::open(address).unwrap());
                    let (lock, both) = (locks.lock("a"), locks.multi(["a", "b"]));
                    assert_eq!(lock.info()$($await)*.unwrap(), LockInfo::default());
                    assert!(!lock.locked()$($await)*.unwrap() && !lock.force()$($await)*.unwrap());

                    let guard = both.lock()$($await)*.unwrap();
                    waits(&mut server, "LOCK.FAIR", "b", "waiter");
                    assert!(lock.locked()$($await)*.unwrap() && both.locked()$($await)*.unwrap());
                    let info = both.info()$($await)*.unwrap();
                    let held: Vec<_> = info.holders.iter().map(|one| (&*one.key, &*one.owner, &*one.mode)).collect();
                    assert_eq!(held, [("a", guard.owner(), "exclusive"), ("b", guard.owner(), "exclusive")]);
                    let first = &info.holders[0];
                    assert!(first.holds == 1 && !first.session && first.left.is_some_and(|left| left > 20 * SECOND));
                    assert_eq!((info.waiting, info.waiters.len()), (1, 1));
                    let waiter = &info.waiters[0];
                    assert_eq!((&*waiter.key, &*waiter.owner, waiter.fair, waiter.left), ("b", "waiter", true, None));
                    assert!(waiter.waited < 20 * SECOND);

                    assert!(both.force()$($await)*.unwrap());
                    assert_eq!(both.info()$($await)*.unwrap().holders[0].owner, "waiter");
                    assert!(matches!(guard.release()$($await)*, Err(Error::NotHeld { .. })));

                    // It may have been executed when the connection was lost; then the lock is another one's.
                    let calls = server.calls("lock.force");
                    server.cut_idle();
                    let error = lock.force()$($await)*.unwrap_err();
                    assert!(matches!(error, Error::Connection { .. }), "{error}");
                    assert_eq!(server.calls("lock.force"), calls);

                    let permits = locks.semaphore("s", 3).session().lock()$($await)*.unwrap();
                    assert!(locks.semaphore("s", 3).info()$($await)*.unwrap().holders[0].session);
                    permits.release()$($await)*.unwrap();
                }
            }

            #[$test]
            $($async)? fn a_renewal_by_the_program() {
                let mut server = Server::start();
                let locks = Locks::new(&server.client);
                let guard = locks.lock("a").lease(10 * SECOND).no_renewal().lock()$($await)*.unwrap();
                guard.renew_for(60 * SECOND)$($await)*.unwrap();
                assert!(server.say::<u64>(&["PTTL", "a"]) > 50_000);
                guard.renew()$($await)*.unwrap();
                assert!(server.say::<u64>(&["PTTL", "a"]) > 50_000, "it keeps the new lease");
                for (lease, text) in [
                    (Duration::ZERO, "lease must be greater than 0, not 0"),
                    (Duration::from_nanos(500), "lease must be at least 1 ms, not 500ns"),
                ] {
                    let error = guard.renew_for(lease)$($await)*.unwrap_err();
                    assert!(matches!(error, Error::InvalidOption { .. }), "{error}");
                    assert_eq!(error.to_string(), text);
                    let error = locks.latch("l").set(1, Some(lease))$($await)*.unwrap_err();
                    assert_eq!(error.to_string(), text);
                }

                let stopped = server.stopped();
                // The reply is lost, so the shorter lease may be in force.
                let error = guard.renew_for(SECOND / 5)$($await)*.unwrap_err();
                assert!(matches!(error, Error::Connection { .. }), "{error}");
                until("the loss", || guard.is_lost().then_some(()));
                drop(stopped);
                assert!(matches!(guard.renew()$($await)*, Err(Error::NotHeld { .. })));

                let session = locks.lock("b").session().lock()$($await)*.unwrap();
                session.renew()$($await)*.unwrap();
                assert!(matches!(session.renew_for(SECOND)$($await)*, Err(Error::InvalidOption { .. })));
                server.say::<u8>(&["LOCK.FORCE", "b"]);
                assert!(matches!(session.renew()$($await)*, Err(Error::NotHeld { .. })));
                assert!(session.is_lost());
            }

            #[$test]
            $($async)? fn a_shorter_lease_is_renewed_earlier() {
                let mut server = Server::start();
                let guard = Locks::new(&server.client).lock("a").lock()$($await)*.unwrap();
                guard.renew_for(SECOND * 2)$($await)*.unwrap();
                until("renewals", || (server.calls("lock.renew") > 2).then_some(()));
                assert!(!guard.is_lost());
                assert!(server.say::<u64>(&["PTTL", "a"]) <= 2000);
                guard.release()$($await)*.unwrap();
            }

            #[$test]
            $($async)? fn a_command_under_the_lock() {
                let mut server = Server::start();
                let guard = Locks::new(&server.client).multi(["a", "b"]).lock()$($await)*.unwrap();
                guard.guard::<()>(cmd("SET").arg("balance").arg(100))$($await)*.unwrap();
                assert_eq!(guard.guard::<u32>(cmd("GET").arg("balance"))$($await)*.unwrap(), 100);
                let error = guard.guard::<()>(cmd("INCR").arg("a"))$($await)*.unwrap_err();
                assert!(matches!(error, Error::Refused { .. }), "{error}");

                // It may have been executed when the connection was lost, so it is not sent again.
                let calls = server.calls("lock.guard");
                server.cut_idle();
                let error = guard.guard::<()>(cmd("INCR").arg("balance"))$($await)*.unwrap_err();
                assert!(matches!(error, Error::Connection { .. }), "{error}");
                assert_eq!(server.calls("lock.guard"), calls);

                server.say::<u8>(&["LOCK.FORCE", "a"]);
                let error = guard.guard::<()>(cmd("INCR").arg("balance"))$($await)*.unwrap_err();
                assert!(matches!(error, Error::NotHeld { .. }) && guard.is_lost(), "{error}");
            }

            #[$test]
            $($async)? fn locks_of_two_servers() {
                let (mut one, mut two) = (Server::start(), Server::start());
                let (first, second) = (Locks::new(&one.client), Locks::new(&two.client));
                let both = combine([second.lock("a").fenced(), first.write("b")]);
                let held = second.lock("a").lock()$($await)*.unwrap();
                let error = both.lock_for(SECOND / 5)$($await)*.unwrap_err();
                let waits_for = format!("lock \"a\" was not acquired within 0.2 s: held by {} (this process)", held.owner());
                assert_eq!(error.to_string(), waits_for);
                one.free("b");
                held.release()$($await)*.unwrap();

                let guard = both.try_lock()$($await)*.unwrap();
                // In the order of the names, which differ in the port.
                let is_first = one.client.get_connection_info().addr().to_string()
                    < two.client.get_connection_info().addr().to_string();
                let expected: [&[u8]; 2] = if is_first { [b"b", b"a"] } else { [b"a", b"b"] };
                assert_eq!(guard.keys().collect::<Vec<_>>(), expected);
                assert_eq!(guard.token(), None);
                assert_eq!(guard.holds().iter().filter_map(Held::token).count(), 1);
                assert_eq!(guard.owner(), guard.holds()[0].owner());
                guard.renew_for(90 * SECOND)$($await)*.unwrap();
                assert!(one.say::<u64>(&["PTTL", "b"]) > 80_000 && two.say::<u64>(&["PTTL", "a"]) > 80_000);
                two.say::<u8>(&["LOCK.FORCE", "a"]);
                assert!(matches!(guard.renew()$($await)*, Err(Error::NotHeld { .. })));
                assert!(guard.is_lost());
                assert!(matches!(guard.release()$($await)*, Err(Error::NotHeld { .. })));
                one.free("b");

                let guard = both.lock()$($await)*.unwrap();
                assert!(second.close(20 * SECOND)$($await)*);
                assert!(guard.is_lost(), "its lock there was released");
                drop(guard);
                assert!(first.settle(20 * SECOND)$($await)*);
                one.free("b");
                assert!(matches!(both.lock()$($await)*, Err(Error::Closed { .. })));

                let error = combine([]).lock()$($await)*.unwrap_err();
                assert_eq!(error.to_string(), "members must not be empty");
                let error = combine([first.lock("a"), first.fair("a")]).lock()$($await)*.unwrap_err();
                assert_eq!(error.to_string(), "members: a key of one server is in two of them");
            }

            #[$test]
            $($async)? fn several_locks_that_were_not_acquired_leave_nothing_behind() {
                let mut server = Server::start();
                let locks = Locks::new(&server.client);
                let _held = locks.lock("b").lock()$($await)*.unwrap();
                let both = combine([locks.lock("a"), locks.lock("b")]);
                let mut late = 0;
                for _ in 0..20 {
                    assert!(matches!(both.try_lock()$($await)*, Err(Error::NotAcquired(_) | Error::Connection { .. })));
                    late += i32::from(server.is_held("a"));
                }
                // On a busy machine the time for it may not suffice.
                assert!(late < 5, "{late}");
                until("the releases", || (!server.is_held("a")).then_some(()));
            }

            #[$test]
            $($async)? fn a_majority_lock_that_has_ended_leaves_nothing_behind() {
                let mut servers = [Server::start(), Server::start(), Server::start()];
                let all: Vec<Locks> = servers.iter().map(|server| Locks::new(&server.client)).collect();
                let lock = RedLock::new(all.clone()).unwrap().lock("a").lease(20 * SECOND);
                for _ in 0..20 {
                    lock.lock()$($await)*.unwrap().release()$($await)*.unwrap();
                    assert!(servers.iter_mut().all(|server| !server.is_held("a")));
                }
                let one = all[0].lock("a").lock()$($await)*.unwrap();
                let two = all[1].lock("a").lock()$($await)*.unwrap();
                let text = format!("lock \"a\" was not acquired: held by {} (this process)", one.owner());
                let mut late = 0;
                for _ in 0..20 {
                    let error = lock.try_lock()$($await)*.unwrap_err();
                    let is_free = !servers[2].is_held("a");
                    let is_named = matches!(&error, Error::NotAcquired(error) if error.holders == [one.owner(), two.owner()]);
                    late += i32::from(!is_free || !is_named || !error.to_string().starts_with(&text));
                }
                // On a busy machine the time for it may not suffice.
                assert!(late < 5, "{late}");
            }

            #[$test]
            $($async)? fn a_server_that_is_away_does_not_delay_a_majority() {
                let mut servers = [Server::start(), Server::start()];
                let gone = redis::Client::open("redis://127.0.0.1:1/").unwrap();
                let locks = || [Locks::new(&gone), Locks::new(&servers[0].client), Locks::new(&servers[1].client)];
                let lock = RedLock::new(locks()).unwrap().lock("a").lease(60 * SECOND);
                let other = RedLock::new(locks()).unwrap().lock("a");
                let start = Instant::now();
                let guard = lock.lock()$($await)*.unwrap();
                let Err(Error::NotAcquired(error)) = other.lock_for(SECOND / 5)$($await)* else { panic!("two hold it") };
                assert!(error.cause.is_none() && error.holders == [guard.owner()], "{error}");
                guard.release()$($await)*.unwrap();
                servers.iter_mut().for_each(|server| assert!(!server.is_held("a")));
                // A server has a second to reply.
                assert!(start.elapsed() < SECOND / 5 + SECOND * 3 / 4, "{:?}", start.elapsed());
            }

            #[$test]
            $($async)? fn a_silent_server_of_a_majority_costs_few_connections() {
                let mut servers = [Server::start(), Server::start(), Server::start()];
                let all: Vec<Locks> = servers.iter().map(|server| Locks::new(&server.client)).collect();
                let of_all = RedLock::new(all).unwrap();
                of_all.lock("a").lock()$($await)*.unwrap().release()$($await)*.unwrap();
                let before = servers[0].connections();
                let stopped = servers[0].stopped();
                let (mut guards, start) = (Vec::new(), Instant::now());
                for number in 0..100 {
                    guards.push(of_all.lock(number.to_string()).lock()$($await)*.unwrap());
                }
                let most = 40 + 20 * start.elapsed().as_secs();
                drop(stopped);
                let opened = servers[0].connections() - before;
                assert!(opened <= most, "{opened} instead of {most}");
                drop(guards);
            }

            #[$test]
            $($async)? fn a_lock_of_a_majority() {
                let mut servers = [Server::start(), Server::start(), Server::start()];
                let clients = servers.each_ref().map(|server| server.client.clone());
                let locks = || clients.iter().map(Locks::new).collect::<Vec<_>>();
                let (all, others) = (locks(), locks());
                let lock = RedLock::new(all.clone()).unwrap().lock("a").lease(20 * SECOND);
                let other = RedLock::new(others).unwrap().lock("a");
                let guard = lock.lock()$($await)*.unwrap();
                assert!(guard.token() > 0 && !guard.is_lost());
                let error = other.lock_for(SECOND)$($await)*.unwrap_err();
                assert!(matches!(error, Error::NotAcquired(_)), "{error}");
                guard.renew_for(60 * SECOND)$($await)*.unwrap();
                assert!(servers[0].say::<u64>(&["PTTL", "a"]) > 50_000);

                // A server that has lost the lock grants it again.
                assert_eq!(servers[0].say::<u8>(&["LOCK.FORCE", "a"]), 1);
                guard.renew()$($await)*.unwrap();
                assert!(servers[0].is_held("a") && !guard.is_lost());
                let token = guard.token();
                guard.release()$($await)*.unwrap();
                servers.iter_mut().for_each(|server| server.free("a"));

                // One that does not respond is not needed.
                let stopped = servers[1].stopped();
                let guard = lock.lock_for(10 * SECOND)$($await)*.unwrap();
                assert!(guard.token() > token);
                drop(stopped);
                for number in [0, 2] {
                    assert_eq!(servers[number].say::<u8>(&["LOCK.FORCE", "a"]), 1);
                }
                assert!(matches!(guard.renew()$($await)*, Err(Error::NotHeld { .. })));
                assert!(guard.is_lost());
                assert!(matches!(guard.release()$($await)*, Err(Error::NotHeld { .. })));
                servers.iter_mut().for_each(|server| server.free("a"));

                let error = RedLock::new(all[..2].to_vec()).unwrap_err();
                assert_eq!(error.to_string(), "servers: RedLock needs at least three, not 2");
                let twice = RedLock::new([all[0].clone(), all[1].clone(), Locks::new(&servers[0].client)]).unwrap();
                let error = twice.lock("a").lock()$($await)*.unwrap_err();
                assert!(error.to_string().ends_with("are the same server"), "{error}");
                let port = servers[0].port().to_string();
                servers[2].say::<()>(&["REPLICAOF", "127.0.0.1", &port]);
                let replica = RedLock::new(locks()).unwrap();
                let error = replica.lock("a").lock()$($await)*.unwrap_err();
                assert!(error.to_string().ends_with("is a replica"), "{error}");
            }

            /// Locks of three servers, of which the last one identifies itself too late, and gets the request after that.
            $($async)? fn with_a_late_one(servers: &[Server; 3]) -> lock_so::$flavour::MajorityLock {
                let wire = Wire::to(servers[2].port());
                let clients = [servers[0].client.clone(), servers[1].client.clone(), wire.client()];
                let lock = RedLock::new(clients.iter().map(Locks::new)).unwrap().lock("a");
                let lock = lock.lease(6 * SECOND).no_renewal(); // a server has 0.3 s to reply
                wire.refuse(true);
                lock.lock()$($await)*.unwrap().release()$($await)*.unwrap();
                wire.delay(SECOND * 6 / 10);
                wire.refuse(false);
                lock
            }

            #[$test]
            $($async)? fn a_late_request_of_a_majority_lock_does_not_count_at_once() {
                let mut servers = [Server::start(), Server::start(), Server::start()];
                let guard = with_a_late_one(&servers)$($await)*.lock()$($await)*.unwrap();
                until("the late grant", || servers[2].is_held("a").then_some(()));
                servers[0].say::<u8>(&["LOCK.FORCE", "a"]);
                let error = guard.renew()$($await)*.unwrap_err();
                assert!(matches!(error, Error::NotHeld { .. }), "only one server has held it all the time: {error}");
                drop(guard);
            }

            #[$test]
            $($async)? fn a_released_majority_lock_is_not_requested_any_more() {
                let mut servers = [Server::start(), Server::start(), Server::start()];
                with_a_late_one(&servers)$($await)*.lock()$($await)*.unwrap().release()$($await)*.unwrap();
                until("the late server", || (servers[2].calls("cluster|nodes") > 0).then_some(()));
                thread::sleep(SECOND / 5);
                assert_eq!(servers[2].calls("lock.acquire"), 0);
            }

            #[$test]
            $($async)? fn a_majority_of_an_even_number() {
                let servers = [(); 4].map(|()| Server::start());
                let all: Vec<Locks> = servers.iter().map(|server| Locks::new(&server.client)).collect();
                let lock = RedLock::new(all).unwrap().lock("a");
                let guard = lock.lock()$($await)*.unwrap();
                for _ in 0..5 {
                    let error = lock.try_lock()$($await)*.unwrap_err();
                    assert!(matches!(error, Error::NotAcquired(_)), "{error}");
                }
                guard.release()$($await)*.unwrap();
            }

            #[$test]
            $($async)? fn a_released_majority_lock_is_not_acquired_again() {
                let mut servers = [Server::start(), Server::start(), Server::start()];
                let all: Vec<Locks> = servers.iter().map(|server| Locks::new(&server.client)).collect();
                let lock = RedLock::new(all.clone()).unwrap().lock("a").lease(4 * SECOND).no_renewal();
                let guard = lock.lock()$($await)*.unwrap();
                until("all grants", || servers.iter_mut().all(|server| server.is_held("a")).then_some(()));
                servers[0].say::<u8>(&["LOCK.FORCE", "a"]);
                let stopped = servers[0].stopped();
                guard.renew()$($await)*.unwrap();
                guard.release()$($await)*.unwrap();
                drop(stopped);
                until("the renewal", || (servers[0].calls("lock.renew") > 0).then_some(()));
                assert!(all[0].settle(20 * SECOND)$($await)*);
                assert_eq!(servers[0].calls("lock.acquire"), 1);
                assert!(!servers[0].is_held("a"));
            }

            #[$test]
            $($async)? fn a_late_server_of_a_majority_lock_gets_the_new_lease() {
                let mut servers = [Server::start(), Server::start(), Server::start()];
                let all: Vec<Locks> = servers.iter().map(|server| Locks::new(&server.client)).collect();
                let lock = RedLock::new(all).unwrap().lock("a").lease(20 * SECOND).no_renewal();
                lock.lock()$($await)*.unwrap().release()$($await)*.unwrap();
                let stopped = servers[0].stopped();
                let guard = lock.lock()$($await)*.unwrap();
                guard.renew_for(60 * SECOND)$($await)*.unwrap();
                drop(stopped);
                until("the new lease", || (servers[0].say::<i64>(&["PTTL", "a"]) > 50_000).then_some(()));
                guard.release()$($await)*.unwrap();
                servers.iter_mut().for_each(|server| server.free("a"));
            }

            #[$test]
            $($async)? fn a_majority_lock_whose_factories_are_closed() {
                let mut servers = [Server::start(), Server::start(), Server::start()];
                let all: Vec<Locks> = servers.iter().map(|server| Locks::new(&server.client)).collect();
                let losses = Arc::new(AtomicUsize::new(0));
                let count = losses.clone();
                let lock = RedLock::new(all.clone()).unwrap().lock("a").on_lost(move || {
                    count.fetch_add(1, Ordering::SeqCst);
                });
                let guard = lock.lock()$($await)*.unwrap();
                until("all grants", || servers.iter_mut().all(|server| server.is_held("a")).then_some(()));
                assert!(all[0].close(20 * SECOND)$($await)*);
                assert!(guard.is_lost() && !servers[0].is_held("a") && servers[1].is_held("a"));
                assert!(matches!(lock.try_lock()$($await)*, Err(Error::Closed { .. })));
                let start = Instant::now();
                assert!(all[1].close(20 * SECOND)$($await)* && start.elapsed() < 10 * SECOND);
                let error = guard.release()$($await)*.unwrap_err();
                assert_eq!(error.to_string(), "lock \"a\" is not held: one of its factories was closed");
                servers.iter_mut().for_each(|server| server.free("a"));
                assert_eq!(losses.load(Ordering::SeqCst), 1);
            }

            #[$test]
            $($async)? fn a_silent_server_does_not_delay_the_release_of_another() {
                let (one, two) = (Server::start(), Server::start());
                let (first, second) = (Locks::new(&one.client), Locks::new(&two.client));
                let both = combine([first.lock("a").lease(8 * SECOND), second.lock("a").lease(8 * SECOND)]);
                // The last one is released first.
                let is_first = one.client.get_connection_info().addr().to_string()
                    < two.client.get_connection_info().addr().to_string();
                let (mut one, two) = if is_first { (one, two) } else { (two, one) };
                let guard = both.lock()$($await)*.unwrap();
                let stopped = two.stopped();
                let (start, freed) = (Instant::now(), thread::spawn(move || {
                    one.free("a");
                    Instant::now()
                }));
                let error = guard.release()$($await)*.unwrap_err();
                assert!(matches!(error, Error::Connection { .. }), "{error}");
                let freed = freed.join().unwrap();
                assert!(freed - start < 3 * SECOND, "{:?}", freed - start);
                drop(stopped);
            }

            #[$test]
            $($async)? fn what_a_closed_factory_held_is_not_released_again() {
                let (mut one, mut two) = (Server::start(), Server::start());
                let first = Locks::new(&one.client);
                for is_lost in [false, true] {
                    let second = Locks::new(&two.client);
                    let guard = combine([first.lock("a"), second.lock("a")]).lock()$($await)*.unwrap();
                    if is_lost {
                        two.say::<u8>(&["LOCK.FORCE", "a"]);
                        assert!(matches!(guard.renew()$($await)*, Err(Error::NotHeld { .. })));
                    }
                    let stopped = two.stopped();
                    assert!(!second.close(SECOND / 10)$($await)*);
                    let start = Instant::now();
                    let error = guard.release()$($await)*.unwrap_err();
                    let why = if is_lost { "the server reported its loss" } else { "one of its factories was closed" };
                    assert_eq!(error.to_string(), format!("lock \"a\" is not held: {why}"));
                    assert!(start.elapsed() < 3 * SECOND, "{:?}", start.elapsed());
                    one.free("a");
                    drop(stopped);
                    two.say::<u8>(&["LOCK.FORCE", "a"]);
                }
            }

            #[$test]
            $($async)? fn a_majority_that_cannot_be_reached() {
                let servers = [Server::start()];
                let gone = redis::Client::open("redis://127.0.0.1:1/").unwrap();
                let gone = || Locks::new(Settings::single(&gone).connect_timeout(SECOND).unwrap());
                let locks = [Locks::new(&servers[0].client), gone(), gone()];
                let lock = RedLock::new(locks).unwrap().lock("a");
                assert!(matches!(lock.try_lock()$($await)*, Err(Error::Connection { .. })));
                assert!(matches!(lock.lock_for(SECOND / 5)$($await)*, Err(Error::NotAcquired(_))));
            }

            #[$test]
            $($async)? fn a_majority_without_the_module_is_named() {
                let servers = [Server::start(), Server::bare(), Server::bare()];
                let locks = servers.each_ref().map(|server| Locks::new(&server.client));
                let error = RedLock::new(locks).unwrap().lock("a").lock()$($await)*.unwrap_err();
                assert!(matches!(error, Error::ModuleMissing { .. }), "{error}");
                let address = servers[1].client.get_connection_info().addr().to_string();
                assert_eq!(error.to_string(), format!("lock \"a\": unknown command: is lock.so loaded on {address}?"));
            }

            #[$test]
            $($async)? fn keys_of_several_slots() {
                let mut nodes = cluster();
                let seed = format!("redis://{}/", nodes[0].client.get_connection_info().addr());
                let locks = Locks::new(Settings::cluster([seed]).unwrap());
                // Their slots are in the other order, on two nodes.
                let lock = locks.multi_modes(&["a", "{a}2"], &["b"]);
                let guard = lock.lock()$($await)*.unwrap();
                assert_eq!(guard.keys().collect::<Vec<_>>(), [&b"b"[..], b"a", b"{a}2"]);
                assert_eq!(guard.holds().len(), 2);
                assert_eq!(lock.info()$($await)*.unwrap().holders.len(), 3);
                locks.read("a").try_lock()$($await)*.unwrap().release()$($await)*.unwrap();
                assert!(matches!(locks.write("b").try_lock()$($await)*, Err(Error::NotAcquired(_))));
                guard.release()$($await)*.unwrap();
                assert!(!lock.locked()$($await)*.unwrap());

                let both = locks.multi(["b", "a"]);
                let guard = both.lock()$($await)*.unwrap();
                let stopped = nodes[0].stopped();
                let error = both.force()$($await)*.unwrap_err();
                assert!(matches!(error, Error::Connection { .. }), "{error}");
                assert!(!nodes[2].is_held("a"), "it is on another node");
                drop(stopped);
                drop(guard);
                nodes.clear();
            }

            #[$test]
            $($async)? fn a_latch() {
                let mut server = Server::start();
                let locks = Locks::new(&server.client);
                let latch = locks.latch("a");
                latch.wait()$($await)*.unwrap();
                latch.set(3, Some(60 * SECOND))$($await)*.unwrap();
                assert!(server.say::<u64>(&["PTTL", "a"]) > 50_000);
                assert_eq!(latch.count()$($await)*.unwrap(), 3);
                assert!(!latch.wait_for(SECOND / 5)$($await)*.unwrap());
                assert!(!latch.wait_for(Duration::ZERO)$($await)*.unwrap());
                assert_eq!(latch.count_down()$($await)*.unwrap(), 2);
                server.say::<i64>(&["DECRBY", "a", "5"]);
                assert_eq!(latch.count()$($await)*.unwrap(), 0);
                assert!(latch.wait_for(SECOND)$($await)*.unwrap());
                assert_eq!(latch.count_down_by(5)$($await)*.unwrap(), 0);

                // It may have been executed when the connection was lost, and have been counted down since.
                let calls = server.calls("latch.set");
                server.cut_idle();
                let error = latch.set(1, None)$($await)*.unwrap_err();
                assert!(matches!(error, Error::Connection { .. }), "{error}");
                assert_eq!(server.calls("latch.set"), calls);

                let error = latch.count_down_by(0)$($await)*.unwrap_err();
                assert_eq!(error.to_string(), "by must be at least 1, not 0");

                let _lock = locks.lock("b").lock()$($await)*.unwrap();
                let error = locks.latch("b").wait()$($await)*.unwrap_err();
                assert!(error.to_string().starts_with("latch \"b\": WRONGTYPE "), "{error}");
            }

            #[$test]
            $($async)? fn a_delayed_queue() {
                let server = Server::start();
                let queue = Locks::new(&server.client).delayed_queue("a");
                let id = queue.push("first", 10 * SECOND)$($await)*.unwrap();
                queue.push_as("b", "late", 90 * SECOND)$($await)*.unwrap();
                queue.push_as("b", b"\xff", 60 * SECOND)$($await)*.unwrap();
                let list = queue.list(None)$($await)*.unwrap();
                let shown: Vec<_> = list.iter().map(|one| (&*one.id, &*one.value)).collect();
                assert_eq!(shown, [(&*id, &b"first"[..]), ("b", b"\xff")]);
                assert!(list[0].left <= 10 * SECOND && list[1].left > 50 * SECOND);
                assert_eq!(queue.list(Some(1))$($await)*.unwrap().len(), 1);
                assert!(queue.cancel(&id)$($await)*.unwrap() && !queue.cancel(&id)$($await)*.unwrap());
                let error = queue.push("lock-so:1:a", SECOND)$($await)*.unwrap_err();
                assert!(matches!(error, Error::InvalidOption { .. }), "{error}");
                let error = queue.push_as("", "a", SECOND)$($await)*.unwrap_err();
                assert_eq!(error.to_string(), "id must not be empty");
            }
        }
    };
}

tests!(sync, test, [] []);
tests!(aio, tokio::test(flavor = "multi_thread"), [async] [.await]);
