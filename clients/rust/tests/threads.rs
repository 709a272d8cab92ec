//! What the conformance suite, which is for all languages, cannot test of the guards for threads.
#![cfg(feature = "sync")]

#[allow(dead_code)] // The other tests need the rest.
mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use common::{until, Server};
use lock_so::sync::{combine, Cancel, Guard, Held, Locks};
use lock_so::{Error, Settings};

const SOON: Duration = Duration::from_secs(20);

#[test]
fn a_dropped_guard_releases_and_a_panic_drops_it() {
    let mut server = Server::start();
    let lock = Locks::new(&server.client).lock("a");
    let guard = lock.lock().unwrap();
    let start = Instant::now();
    drop(guard);
    // With a slower server the release continues in the background.
    if start.elapsed() < Duration::from_secs(1) {
        assert!(!server.is_held("a"), "the release is executed before drop returns");
    }
    server.free("a");

    let panics = thread::spawn(move || {
        let _guard = lock.lock().unwrap();
        panic!("on purpose");
    });
    assert!(panics.join().is_err());
    server.free("a");
}

#[test]
fn an_early_return_keeps_its_own_error() {
    let mut server = Server::start();
    let lock = Locks::new(&server.client).lock("a");
    let mut body = || -> Result<(), Box<dyn std::error::Error>> {
        let guard = lock.lock()?;
        assert_eq!(server.say::<u8>(&["LOCK.FORCE", "a"]), 1);
        "no number".parse::<u8>()?;
        Ok(guard.release()?)
    };
    assert!(body().unwrap_err().to_string().contains("invalid digit"));
}

#[test]
fn a_guard_knows_what_it_holds() {
    let mut server = Server::start();
    let locks = Locks::new(&server.client);
    let first = locks.lock("a").fenced().lock().unwrap();
    assert_eq!(server.say::<u32>(&["HGET", "a", first.owner()]), 1);
    assert_eq!(first.keys().collect::<Vec<_>>(), [b"a"]);
    let token = first.token().unwrap();
    first.release().unwrap();
    assert!(locks.lock("a").fenced().lock().unwrap().token().unwrap() > token);
    let permits = locks.semaphore("s", 3).permits(2).lock().unwrap();
    assert_eq!((permits.permits(), permits.token()), (2, None));
}

#[test]
fn a_loss_is_reported_once_and_not_after_a_release() {
    let mut server = Server::start();
    let losses = Arc::new(AtomicUsize::new(0));
    let count = losses.clone();
    let lock = Locks::new(&server.client).lock("a").on_lost(move || {
        count.fetch_add(1, Ordering::SeqCst);
    });
    lock.lock().unwrap().release().unwrap();

    let guard = lock.lock().unwrap();
    assert!(!guard.is_lost());
    server.say::<u8>(&["LOCK.FORCE", "a"]);
    until("the loss", || (losses.load(Ordering::SeqCst) > 0).then_some(()));
    assert!(guard.is_lost());
    assert!(matches!(guard.release(), Err(Error::NotHeld { .. })));
    assert_eq!(losses.load(Ordering::SeqCst), 1);
}

#[test]
fn a_multi_lock_of_which_one_key_is_lost_releases_the_others() {
    let mut server = Server::start();
    let locks = Locks::new(&server.client);
    let ends: [fn(Guard); 2] = [|guard| assert!(matches!(guard.release(), Err(Error::NotHeld { .. }))), drop];
    for end in ends {
        let guard = locks.multi(["a", "b"]).on_lost(|| {}).lock().unwrap();
        server.shows("lock_watchers:2");
        // Its connection is kept for the release, whose first attempt then gets no reply.
        let _kept = locks.lock("c").lock().unwrap();
        server.say::<u8>(&["LOCK.FORCE", "b"]);
        until("the loss", || guard.is_lost().then_some(()));
        server.cut_idle();
        end(guard);
        server.free("a");
    }
}

/// `judge` in util.rs and `Hold::watched` match on the values that redis-rs returns; in RESP3 they must be those of
/// RESP2.
#[test]
fn a_client_that_speaks_resp3() {
    let mut server = Server::start();
    let address = format!("redis://{}/?protocol=resp3", server.client.get_connection_info().addr());
    let client = redis::Client::open(address).unwrap();
    let locks = Locks::new(Settings::single(&client).max_block(Duration::from_millis(20)).unwrap());
    let guard = locks.lock("a").fenced().on_lost(|| {}).lock().unwrap();
    assert!(guard.token().is_some());
    server.shows("lock_watchers:1");
    // The watch and this wait block several times, and each time the reply is null.
    assert!(matches!(locks.lock("a").lock_for(Duration::from_millis(200)), Err(Error::NotAcquired(_))));
    assert!(!guard.is_lost());
    server.say::<u8>(&["LOCK.FORCE", "a"]);
    until("the loss", || guard.is_lost().then_some(()));
    assert!(matches!(guard.release(), Err(Error::NotHeld { .. })));
}

#[test]
fn a_callback_that_panics_does_not_end_renewals() {
    let mut server = Server::start();
    let locks = Locks::new(&server.client);
    let lease = Duration::from_secs(5);
    let lost = locks.lock("a").lease(lease).on_lost(|| panic!("on purpose")).lock().unwrap();
    let kept = locks.lock("b").lease(lease).lock().unwrap();
    server.say::<u8>(&["LOCK.FORCE", "a"]);
    until("the loss", || lost.is_lost().then_some(()));
    // The TTL of the other lock increases from one check to the next.
    let mut seen: u64 = u64::MAX;
    until("a renewal", || {
        let before = std::mem::replace(&mut seen, server.say(&["PTTL", "b"]));
        (seen > before).then_some(())
    });
    kept.release().unwrap();
}

#[test]
fn callbacks_that_block_do_not_delay_renewals() {
    let server = Server::start();
    let locks = Locks::new(&server.client);
    let block = || thread::sleep(Duration::from_secs(60));
    let lost: Vec<_> = (0..10)
        .map(|key| {
            let lock = locks.lock(key.to_string()).no_renewal().lease(Duration::from_secs(1)).on_lost(block);
            lock.lock().unwrap()
        })
        .collect();
    let kept = locks.lock("a").lease(Duration::from_secs(3)).lock().unwrap();
    until("the losses", || lost.iter().all(Guard::is_lost).then_some(()));
    thread::sleep(Duration::from_secs(5));
    assert!(!kept.is_lost());
    lost.into_iter().for_each(std::mem::forget);
    kept.release().unwrap();
}

#[test]
fn what_a_callback_has_is_dropped_with_its_guard() {
    let mut server = Server::start();
    let locks = Locks::new(&server.client);
    let captured = Arc::new(());
    let has = captured.clone();
    let lock = locks.lock("a").lease(Duration::from_secs(12)).on_lost(move || {
        let _ = &has;
    });
    let guard = lock.lock().unwrap();
    drop(lock);
    until("a renewal", || (server.calls("lock.renew") > 0).then_some(()));
    guard.release().unwrap();
    let released = Instant::now();
    until("the callback to be dropped", || (Arc::strong_count(&captured) == 1).then_some(()));
    assert!(released.elapsed() < Duration::from_secs(3), "{:?}", released.elapsed());
}

#[test]
fn settle_does_not_wait_for_a_wait_that_can_be_cancelled() {
    let mut server = Server::start();
    let locks = Locks::new(&server.client);
    let held = locks.lock("a").lock().unwrap();
    let cancel = Cancel::new();
    let lock = locks.lock("a").cancelled_by(&cancel);
    let waits = thread::spawn(move || lock.lock());
    server.waiters(1);
    assert!(locks.settle(Duration::ZERO));
    cancel.cancel();
    assert!(matches!(waits.join().unwrap(), Err(Error::Cancelled { .. })));
    assert!(locks.settle(SOON));
    server.waiters(0);
    held.release().unwrap();
}

#[test]
fn cancelled_from_another_thread() {
    let mut server = Server::start();
    let locks = Locks::new(&server.client);
    let held = locks.lock("a").lock().unwrap();
    let cancel = Cancel::new();
    let lock = locks.lock("a").cancelled_by(&cancel);
    let waits = thread::spawn(move || lock.lock());
    server.waiters(1);
    cancel.cancel();
    assert!(matches!(waits.join().unwrap(), Err(Error::Cancelled { .. })));
    assert!(matches!(locks.lock("b").cancelled_by(&cancel).lock(), Err(Error::Cancelled { .. })));
    assert!(locks.settle(SOON));
    server.waiters(0);
    held.release().unwrap();
    server.free("a");
    server.free("b");
}

#[test]
fn no_server() {
    let client = redis::Client::open("redis://127.0.0.1:1/").unwrap();
    let lock = Locks::new(&client).lock("a");
    assert!(matches!(lock.try_lock(), Err(Error::Connection { .. })));
    assert!(matches!(lock.lock_for(Duration::from_millis(50)), Err(Error::NotAcquired(_))));
}

#[test]
fn a_wrong_port_is_an_error_after_the_time_to_connect() {
    let client = redis::Client::open("redis://127.0.0.1:1/").unwrap();
    let settings = Settings::single(&client).connect_timeout(Duration::from_millis(200)).unwrap();
    let lock = Locks::new(settings).lock("a");
    let start = Instant::now();
    let error = lock.lock().unwrap_err();
    let took = start.elapsed();
    assert!(matches!(error, Error::Connection { .. }));
    assert!(took >= Duration::from_millis(200) && took < Duration::from_millis(550), "{took:?}");
    assert!(error.to_string().starts_with("lock \"a\": no connection: "), "{error}");
    assert!(std::error::Error::source(&error).is_some());
    let error = lock.lock_for(Duration::from_millis(100)).unwrap_err();
    assert!(error.to_string().starts_with("lock \"a\" was not acquired within 0.1 s: "), "{error}");
}

#[test]
fn invalid_options_are_refused() {
    let client = redis::Client::open("redis://127.0.0.1:1/").unwrap();
    let locks = Locks::new(&client);
    let second = Duration::from_secs(1);
    for (lock, text) in [
        (locks.lock("a").lease(Duration::ZERO), "lease must be greater than 0, not 0"),
        (locks.lock("a").lease(Duration::from_nanos(500)), "lease must be at least 1 ms, not 500ns"),
        (locks.lock("a").session().lease(Duration::from_micros(999)), "lease must be at least 1 ms, not 999µs"),
        (locks.semaphore("a", 0), "limit must be at least 1, not 0"),
        (locks.semaphore("a", 3).permits(4), "permits must be from 1 to the limit of 3, not 4"),
        (locks.semaphore("a", 3).permits(0), "permits must be from 1 to the limit of 3, not 0"),
        (locks.fair("a").permits(1), "permits: only a semaphore has permits"),
        (locks.read("a").fenced(), "fenced: a read lock has no fencing token"),
        (locks.multi(["a"]).fenced(), "fenced: a multi-key lock has no fencing token"),
        (locks.lock("a").replicas(0, second), "replicas must be at least 1, not 0"),
        (locks.lock("a").replicas(1, Duration::ZERO), "replicas: the time must be greater than 0, not 0"),
        (
            locks.semaphore("a", 3).reentrant(),
            "reentrant: a semaphore has permits, and no owner that could enter it again",
        ),
        (locks.multi::<&str>([]), "keys must not be empty"),
    ] {
        let error = lock.lock().unwrap_err();
        assert!(matches!(error, Error::InvalidOption { .. }), "{error}");
        assert_eq!(error.to_string(), text);
    }
    let settings = || Settings::single(&client);
    for (name, refused) in [
        ("max_block", settings().max_block(Duration::ZERO)),
        ("connect_timeout", settings().connect_timeout(Duration::ZERO)),
    ] {
        let error = refused.map(drop).unwrap_err();
        assert!(matches!(error, Error::InvalidOption { .. }), "{error}");
        assert_eq!(error.to_string(), format!("{name} must be greater than 0, not 0"));
    }
}

#[test]
fn keys_of_all_types_are_shown_as_text() {
    let client = redis::Client::open("redis://127.0.0.1:1/").unwrap();
    let locks = Locks::new(&client);
    let key = String::from("a");
    let bytes: &[u8] = b"\xff";
    assert_eq!(format!("{:?}", locks.fair(&key)), "Lock(fair lock \"a\")");
    assert_eq!(format!("{:?}", locks.multi([key.clone(), key])), "Lock(multi-key lock \"a\", \"a\")");
    assert_eq!(format!("{:?}", locks.lock(bytes)), "Lock(lock \"\\xff\")");
}

#[test]
fn a_thread_enters_a_reentrant_lock_again() {
    let mut server = Server::start();
    let locks = Locks::new(&server.client);
    let lock = locks.write("a").fenced().reentrant();
    let (outer, calls) = (lock.lock().unwrap(), server.calls("lock.rwwrite"));
    let inner = lock.try_lock().unwrap();
    let plain = locks.write("a").reentrant().try_lock().unwrap();
    assert_eq!((inner.owner(), inner.token()), (outer.owner(), outer.token()));
    assert_eq!(server.calls("lock.rwwrite"), calls, "without a request");
    // Another thread, another kind, other locks, and one that is not reentrant do not enter.
    let other = lock.clone();
    assert!(matches!(thread::spawn(move || other.try_lock()).join().unwrap(), Err(Error::NotAcquired(_))));
    assert!(matches!(locks.read("a").reentrant().try_lock(), Err(Error::NotAcquired(_))));
    assert!(matches!(Locks::new(&server.client).write("a").reentrant().try_lock(), Err(Error::NotAcquired(_))));
    assert!(matches!(locks.write("a").try_lock(), Err(Error::NotAcquired(_))));

    // The last one that ends releases, whichever it is.
    outer.release().unwrap();
    drop(plain);
    assert!(server.is_held("a"));
    inner.release().unwrap();
    assert!(!server.is_held("a"));

    let outer = locks.lock("b").reentrant().lock().unwrap();
    let error = locks.lock("b").reentrant().fenced().lock().unwrap_err();
    assert_eq!(error.to_string(), "fenced: this thread holds the lock without a token");
    let inner = locks.lock("b").reentrant().lock().unwrap();
    server.say::<u8>(&["LOCK.FORCE", "b"]);
    assert!(matches!(outer.renew(), Err(Error::NotHeld { .. })));
    assert!(matches!(locks.lock("b").reentrant().lock(), Err(Error::NotHeld { .. })));
    assert!(matches!(inner.release(), Err(Error::NotHeld { .. })));
    assert!(matches!(outer.release(), Err(Error::NotHeld { .. })));
    locks.lock("b").reentrant().lock().unwrap().release().unwrap();
}

#[test]
fn the_loss_of_one_of_several_locks_is_reported_once() {
    let (mut one, mut two) = (Server::start(), Server::start());
    let (first, second) = (Locks::new(&one.client), Locks::new(&two.client));
    let losses = Arc::new(AtomicUsize::new(0));
    let count = losses.clone();
    let own = Arc::new(AtomicUsize::new(0));
    let own_count = own.clone();
    let member = first.lock("a").on_lost(move || {
        own_count.fetch_add(1, Ordering::SeqCst);
    });
    let guard = combine([member, second.lock("a")]).on_lost(move || {
        count.fetch_add(1, Ordering::SeqCst);
    });
    let guard = guard.lock().unwrap();
    one.say::<u8>(&["LOCK.FORCE", "a"]);
    two.say::<u8>(&["LOCK.FORCE", "a"]);
    until("both losses", || guard.holds().iter().all(Held::is_lost).then_some(()));
    until("the reports", || (own.load(Ordering::SeqCst) > 0).then_some(()));
    assert!(matches!(guard.release(), Err(Error::NotHeld { .. })));
    assert_eq!((losses.load(Ordering::SeqCst), own.load(Ordering::SeqCst)), (1, 1));
}

#[test]
fn several_waits_are_cancelled() {
    let mut server = Server::start();
    let locks = Locks::new(&server.client);
    let held = locks.lock("b").lock().unwrap();
    let cancel = Cancel::new();
    let lock = combine([locks.lock("a"), locks.lock("b")]).cancelled_by(&cancel);
    let waits = thread::spawn(move || lock.lock());
    server.waiters(1);
    cancel.cancel();
    assert!(matches!(waits.join().unwrap(), Err(Error::Cancelled { .. })));
    server.free("a");
    held.release().unwrap();
}

#[test]
fn each_cancel_of_several_locks_ends_their_wait() {
    let mut server = Server::start();
    let locks = Locks::new(&server.client);
    let held = locks.lock("a").lock().unwrap();
    let own = Cancel::new();
    for first in [locks.lock("a"), locks.lock("a").cancelled_by(&own)] {
        let cancel = Cancel::new();
        let lock = combine([first, locks.lock("b").cancelled_by(&cancel)]);
        let (ends, ended) = std::sync::mpsc::channel();
        thread::spawn(move || ends.send(lock.lock().map(drop)));
        server.waiters(1);
        cancel.cancel();
        assert!(matches!(ended.recv_timeout(SOON), Ok(Err(Error::Cancelled { .. }))));
        server.waiters(0);
    }
    held.release().unwrap();
}

#[test]
fn a_consumer_that_is_refused_can_be_cancelled() {
    let mut server = Server::start();
    let cancel = Cancel::new();
    let queue = Locks::new(&server.client).delayed_queue("a").backoff(Duration::from_secs(3600)).cancelled_by(&cancel);
    server.say::<u32>(&["RPUSH", "a", "job"]);
    server.say::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
    let (ends, ended) = std::sync::mpsc::channel();
    thread::spawn(move || ends.send(queue.consume(|_| Ok::<(), Error>(())).unwrap_err()));
    until("an error", || server.say::<String>(&["INFO", "errorstats"]).contains("errorstat_OOM").then_some(()));
    cancel.cancel();
    assert!(matches!(ended.recv_timeout(SOON), Ok(Error::Cancelled { .. })));
}

#[test]
fn without_it_a_thread_waits_for_itself() {
    let server = Server::start();
    let lock = Locks::new(&server.client).lock("a");
    let guard = lock.lock().unwrap();
    let error = lock.lock_for(Duration::from_millis(100)).unwrap_err();
    let text = format!("lock \"a\" was not acquired within 0.1 s: held by {} (this process)", guard.owner());
    assert_eq!(error.to_string(), text);
}

#[test]
fn a_handler_that_panics_counts_as_a_try() {
    let mut server = Server::start();
    let queue = Locks::new(&server.client).delayed_queue("a");
    server.say::<u32>(&["RPUSH", "a", "poison"]);
    let consumer = queue.clone();
    let panics = thread::spawn(move || consumer.consume(|_| -> Result<(), Error> { panic!("on purpose") }));
    assert!(panics.join().is_err());
    let pending = queue.list(None).unwrap();
    assert_eq!((pending.len(), &*pending[0].value), (1, &b"lock-so:1:poison"[..]));
    assert_eq!(server.say::<u32>(&["LLEN", "{a}:taken"]), 0);

    let nothing = |_: &lock_so::Job| Ok::<(), Error>(());
    let error = queue.clone().timeout(Duration::ZERO).consume(nothing).unwrap_err();
    assert_eq!(error.to_string(), "timeout must be greater than 0, not 0");
    let error = queue.clone().max_tries(0).consume(nothing).unwrap_err();
    assert_eq!(error.to_string(), "max_tries must be at least 1, not 0");
}

#[test]
fn a_consumer_that_is_closed_ends_its_job() {
    let mut server = Server::start();
    let locks = Locks::new(&server.client);
    server.say::<u32>(&["RPUSH", "a", "job"]);
    let (queue, closing) = (locks.delayed_queue("a"), locks.clone());
    let mut closes = None;
    let ended = queue.consume(|job| {
        assert_eq!((&*job.value, job.tries), (&b"job"[..], 1));
        let closing = closing.clone();
        closes = Some(thread::spawn(move || closing.close(SOON)));
        until("it to be closed", || matches!(closing_error(&locks), Some(Error::Closed { .. })).then_some(()));
        Ok::<(), Error>(())
    });
    assert!(matches!(ended, Err(Error::Closed { .. })));
    assert!(closes.unwrap().join().unwrap());
    assert_eq!(server.say::<u32>(&["EXISTS", "a", "{a}:taken", "{a}:failed", "delay:due:{a}"]), 0);
}

#[test]
fn close_reports_no_loss_of_locks_of_one_factory() {
    let server = Server::start();
    let locks = Locks::new(&server.client);
    let (lost, reported) = std::sync::mpsc::channel();
    let both = combine([locks.lock("a"), locks.lock("b")]).on_lost(move || lost.send(()).unwrap());
    let guard = both.lock().unwrap();
    assert!(locks.close(SOON));
    assert!(guard.is_lost(), "it holds nothing any more");
    assert!(reported.try_recv().is_err());
}

fn closing_error(locks: &Locks) -> Option<Error> {
    locks.lock("b").try_lock().err()
}

#[test]
fn close_of_the_factory_of_one_of_several_locks_ends_their_wait() {
    let mut server = Server::start();
    let (closing, other) = (Locks::new(&server.client), Locks::new(&server.client));
    let held = other.lock("b").lock().unwrap();
    let lock = combine([closing.lock("a"), other.lock("b")]);
    let (ends, ended) = std::sync::mpsc::channel();
    thread::spawn(move || ends.send(lock.lock().map(drop)));
    server.waiters(1);
    assert!(closing.close(SOON));
    assert!(matches!(ended.recv_timeout(SOON), Ok(Err(Error::Closed { .. }))));
    server.waiters(0);
    server.free("a");
    held.release().unwrap();
}

#[test]
fn close_ends_waits_and_releases_what_is_held() {
    let mut server = Server::start();
    let locks = Locks::new(&server.client);
    let guard = locks.lock("a").lock().unwrap();
    let lock = locks.lock("a");
    let waits = thread::spawn(move || lock.lock());
    server.waiters(1);
    assert!(locks.close(SOON));
    assert!(matches!(waits.join().unwrap(), Err(Error::Closed { .. })));
    server.free("a");
    assert_eq!(guard.release().unwrap_err().to_string(), "lock \"a\" is not held: it was released before");
    assert!(matches!(locks.lock("a").try_lock(), Err(Error::Closed { .. })));
}
