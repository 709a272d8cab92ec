//! The numbers of connections and threads. A file of its own, because other tests would be counted, too.
#![cfg(all(feature = "sync", feature = "tokio"))]

#[allow(dead_code)] // The other tests need the rest.
mod common;
#[allow(dead_code)]
#[path = "common/wire.rs"]
mod wire;

use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use common::Server;
use lock_so::{aio, sync};
use wire::Wire;

const MANY: usize = 80;

/// The largest number during `act`.
fn most(count: impl Fn() -> usize + Send + 'static, act: impl FnOnce()) -> usize {
    let (most, ended) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
    let (seen, has_ended) = (most.clone(), ended.clone());
    let counts = thread::spawn(move || {
        while !has_ended.load(Ordering::SeqCst) {
            seen.fetch_max(count(), Ordering::SeqCst);
            thread::sleep(Duration::from_millis(2));
        }
    });
    act();
    ended.store(true, Ordering::SeqCst);
    counts.join().unwrap();
    most.load(Ordering::SeqCst)
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

#[test]
fn connections_and_threads_are_bounded() {
    let server = Server::start();
    let wire = Wire::to(server.port());
    let counted = wire.clone();
    let locks = sync::Locks::new(&wire.client());
    let guards: Vec<_> = (0..MANY).map(|key| locks.lock(key.to_string()).lock().unwrap()).collect();
    wire.delay(Duration::from_millis(100));
    let connections = most(
        move || counted.connections(),
        || {
            let drops: Vec<_> = guards.into_iter().map(|guard| thread::spawn(move || drop(guard))).collect();
            drops.into_iter().for_each(|drop| drop.join().unwrap());
            assert!(locks.settle(Duration::from_secs(20)));
        },
    );
    assert!((2..=32).contains(&connections), "{connections} connections of threads");
    drop(locks);

    let wire = Wire::to(server.port());
    let counted = wire.clone();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let connections = runtime.block_on(async {
        let locks = aio::Locks::new(&wire.client());
        let mut guards = Vec::new();
        for key in 0..MANY {
            guards.push(locks.lock(key.to_string()).lock().await.unwrap());
        }
        wire.delay(Duration::from_millis(100));
        most(
            move || counted.connections(),
            || {
                tokio::task::block_in_place(|| {
                    drop(guards);
                    tokio::runtime::Handle::current().block_on(async {
                        assert!(locks.settle(Duration::from_secs(20)).await);
                    });
                });
            },
        )
    });
    assert!((2..=32).contains(&connections), "{connections} connections of tasks");
    drop(runtime);

    // Connections to it are opened, but nothing is ever received.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = redis::Client::open(format!("redis://{}/", silent.local_addr().unwrap())).unwrap();
    let locks = sync::Locks::new(&client);
    let before = threads();
    let most = most(threads, || {
        let lock = locks.lock("a");
        let waits: Vec<_> = (0..MANY)
            .map(|_| {
                let lock = lock.clone();
                thread::spawn(move || lock.lock_for(Duration::from_millis(450)).map(drop).unwrap_err())
            })
            .collect();
        waits.into_iter().for_each(|wait| drop(wait.join().unwrap()));
    });
    let most = most - before - MANY;
    assert!(most <= 40, "{most} threads besides those of the waits");
}
