//! What the conformance suite, which is for all languages, cannot test of the guards for tokio.
#![cfg(feature = "tokio")]

#[allow(dead_code)] // The other tests need the rest.
mod common;

use std::future::{poll_fn, Future};
use std::task::Poll;
use std::time::Duration;

use common::{until, Server};
use lock_so::aio::{combine, Locks, RedLock};
use lock_so::Error;
use tokio::runtime::Builder;
use tokio::time::timeout;

const SOON: Duration = Duration::from_secs(20);

/// Polls a future for a short time, and drops it.
async fn dropped_soon<T>(future: impl Future<Output = T>) {
    assert!(timeout(Duration::from_millis(50), future).await.is_err());
}

#[tokio::test]
async fn a_dropped_future_cancels_its_request() {
    let mut server = Server::start();
    let locks = Locks::new(&server.client);
    let held = locks.lock("a").lock().await.unwrap();
    for lock in [locks.lock("a"), locks.fair("a"), locks.multi(["b", "a"]), locks.lock("a").session()] {
        dropped_soon(lock.lock()).await;
        assert!(locks.settle(SOON).await);
        server.waiters(0);
    }
    held.release().await.unwrap();
    server.free("a");
    server.free("b");
}

#[tokio::test]
async fn a_future_that_was_never_polled_has_sent_nothing() {
    let mut server = Server::start();
    let locks = Locks::new(&server.client);
    drop(locks.lock("a").lock());
    assert!(locks.settle(Duration::ZERO).await);
    assert!(!server.say::<String>(&["INFO", "commandstats"]).contains("lock."));
}

#[tokio::test]
async fn dropped_guards_and_releases_release() {
    let mut server = Server::start();
    let locks = Locks::new(&server.client);
    drop(locks.lock("a").lock().await.unwrap());
    assert!(locks.settle(SOON).await);
    assert!(!server.is_held("a"));

    let guard = locks.lock("a").lock().await.unwrap();
    let mut release = Box::pin(guard.release());
    // Polled once, so that the command is sent.
    assert!(poll_fn(|context| Poll::Ready(release.as_mut().poll(context).is_pending())).await);
    drop(release);
    assert!(locks.settle(SOON).await);
    assert!(!server.is_held("a"));
}

#[test]
fn a_guard_may_be_dropped_outside_of_the_runtime() {
    let mut server = Server::start();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (locks, guard) = runtime.block_on(async {
        let locks = Locks::new(&server.client);
        let guard = locks.lock("a").lock().await.unwrap();
        (locks, guard)
    });
    drop(guard);
    assert!(runtime.block_on(locks.settle(SOON)));
    assert!(!server.is_held("a"));
}

#[tokio::test]
async fn lost_completes_at_a_loss_and_never_after_a_release() {
    let mut server = Server::start();
    let locks = Locks::new(&server.client);
    let guard = locks.multi(["a", "b"]).lock().await.unwrap();
    let lost = guard.lost();
    dropped_soon(guard.lost()).await;
    server.say::<u8>(&["LOCK.FORCE", "b"]);
    timeout(SOON, lost).await.unwrap();
    timeout(SOON, guard.lost()).await.unwrap();
    assert!(guard.is_lost());
    assert!(matches!(guard.release().await, Err(Error::NotHeld { .. })));
    server.free("a");

    let guard = locks.lock("a").lock().await.unwrap();
    let lost = guard.lost();
    guard.release().await.unwrap();
    dropped_soon(lost).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_multi_lock_of_which_one_key_is_lost_releases_the_others() {
    let mut server = Server::start();
    let locks = Locks::new(&server.client);
    for is_dropped in [false, true] {
        let guard = locks.multi(["a", "b"]).lock().await.unwrap();
        let lost = guard.lost();
        server.shows("lock_watchers:2");
        // Its connection is kept for the release, whose first attempt then gets no reply.
        let _kept = locks.lock("c").lock().await.unwrap();
        server.say::<u8>(&["LOCK.FORCE", "b"]);
        timeout(SOON, lost).await.unwrap();
        server.cut_idle();
        if is_dropped {
            drop(guard);
            assert!(locks.settle(SOON).await);
        } else {
            assert!(matches!(guard.release().await, Err(Error::NotHeld { .. })));
        }
        server.free("a");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_wait_for_a_latch_ends() {
    let mut server = Server::start();
    let latch = Locks::new(&server.client).latch("a");
    latch.set(1, None).await.unwrap();
    let wait = tokio::spawn(async move { latch.wait().await });
    let mut blocked = |count: u32| {
        let line = format!("blocked_clients:{count}\r");
        until(&line, || server.say::<String>(&["INFO", "clients"]).contains(&line).then_some(()));
    };
    blocked(1);
    wait.abort();
    blocked(0);
}

#[tokio::test]
async fn a_dropped_consumer_gives_its_job_back() {
    let mut server = Server::start();
    let locks = Locks::new(&server.client);
    let queue = locks.delayed_queue("a");
    server.say::<u32>(&["RPUSH", "a", "job"]);
    let (begins, mut begun) = tokio::sync::mpsc::channel(1);
    let handler = |job: lock_so::Job| {
        begins.try_send(job).unwrap();
        std::future::pending::<Result<(), Error>>()
    };
    tokio::select! {
        ended = queue.consume(handler) => panic!("{ended:?}"),
        job = begun.recv() => assert_eq!(job.unwrap().tries, 1),
    }
    assert!(locks.settle(SOON).await);
    until("the delivery", || {
        (server.say::<Vec<String>>(&["LRANGE", "a", "0", "-1"]) == ["lock-so:0:job"]).then_some(())
    });
}

#[tokio::test]
async fn a_dropped_job_that_has_timed_out_is_not_given_back() {
    let mut server = Server::start();
    let locks = Locks::new(&server.client);
    let queue = locks.delayed_queue("a").timeout(Duration::from_millis(200));
    server.say::<u32>(&["RPUSH", "a", "job"]);
    let handler = |_: lock_so::Job| std::future::pending::<Result<(), Error>>();
    let delivered = async {
        while server.say::<Vec<String>>(&["LRANGE", "a", "0", "-1"]) != ["lock-so:1:job"] {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        ended = queue.consume(handler) => panic!("{ended:?}"),
        () = delivered => {}
    }
    assert!(locks.settle(SOON).await);
    while !queue.list(None).await.unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(server.say::<Vec<String>>(&["LRANGE", "a", "0", "-1"]), ["lock-so:1:job"]);
}

#[tokio::test]
async fn a_dropped_renewal_with_a_shorter_lease_is_kept() {
    let servers = [Server::start(), Server::start(), Server::start()];
    let lock = RedLock::new(servers.iter().map(|server| Locks::new(&server.client))).unwrap().lock("a");
    let guard = lock.lease(Duration::from_secs(300)).lock().await.unwrap();
    tokio::task::yield_now().await; // What renews it has begun, with the long lease.
    let stopped = servers.each_ref().map(Server::stopped);
    // The servers have 150 ms to reply.
    dropped_soon(guard.renew_for(Duration::from_secs(3))).await;
    timeout(SOON, guard.lost()).await.unwrap();
    assert!(guard.is_lost());
    drop(stopped);
}

#[tokio::test]
async fn no_server() {
    let client = redis::Client::open("redis://127.0.0.1:1/").unwrap();
    let locks = Locks::new(&client);
    assert!(matches!(locks.lock("a").try_lock().await, Err(Error::Connection { .. })));
    assert!(matches!(locks.lock("a").lock_for(Duration::from_millis(50)).await, Err(Error::NotAcquired(_))));
    assert!(locks.settle(Duration::ZERO).await, "nothing was sent, so there is nothing to clean up");
}

/// As at the end of `#[tokio::main]`: nothing runs in the runtime any more.
#[test]
fn guards_that_are_dropped_at_the_end_of_main_release() {
    let mut servers = [Server::start(), Server::start(), Server::start()];
    for many in [false, true] {
        let mut builder = if many { Builder::new_multi_thread() } else { Builder::new_current_thread() };
        let clients = servers.each_ref().map(|server| server.client.clone());
        builder.enable_all().build().unwrap().block_on(async move {
            let locks = clients.each_ref().map(Locks::new);
            let both = combine([locks[0].lock("b"), locks[1].lock("b")]);
            let _one = locks[0].lock("a").lock().await.unwrap();
            let _both = both.lock().await.unwrap();
            let majority = RedLock::new(locks).unwrap().lock("c").lease(SOON * 3);
            let _majority = majority.lock().await.unwrap();
        });
        for server in &mut servers {
            ["a", "b", "c"].into_iter().for_each(|key| server.free(key));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn close_of_the_factory_of_one_of_several_locks_ends_their_wait() {
    let mut server = Server::start();
    let (closing, other) = (Locks::new(&server.client), Locks::new(&server.client));
    let held = other.lock("b").lock().await.unwrap();
    let lock = combine([closing.lock("a"), other.lock("b")]);
    let waits = tokio::spawn(async move { lock.lock().await.map(drop) });
    server.waiters(1);
    assert!(closing.close(SOON).await);
    assert!(matches!(timeout(SOON, waits).await.unwrap().unwrap(), Err(Error::Closed { .. })));
    server.waiters(0);
    server.free("a");
    held.release().await.unwrap();
}

#[test]
fn close_ends_waits_and_releases_what_is_held() {
    let mut server = Server::start();
    let client = server.client.clone();
    Builder::new_multi_thread().enable_all().build().unwrap().block_on(async move {
        let locks = Locks::new(&client);
        let guard = locks.lock("a").lock().await.unwrap();
        let lock = locks.lock("a");
        let waits = tokio::spawn(async move { lock.lock().await });
        server.waiters(1);
        assert!(locks.close(Duration::from_secs(20)).await);
        assert!(matches!(waits.await.unwrap(), Err(Error::Closed { .. })));
        server.free("a");
        assert_eq!(guard.release().await.unwrap_err().to_string(), "lock \"a\" is not held: it was released before");
        assert!(matches!(locks.lock("a").try_lock().await, Err(Error::Closed { .. })));
    });
}
