//! The examples of docs/clients/rust.md, verbatim.
#![cfg(all(feature = "sync", feature = "tokio"))]

#[path = "../common/mod.rs"]
#[allow(dead_code)] // The other tests need the rest.
mod common;
mod gives_up;
mod package;
mod routed;
mod waits;
mod waits_tokio;

use std::thread;
use std::time::Duration;

use redis::cluster::ClusterClient;
use redis::{cmd, Value};
use tokio::time::timeout;

use common::{cluster, Server};

#[test]
fn the_page_has_what_is_tested_here() {
    let sources = [
        include_str!("package.rs"),
        include_str!("waits.rs"),
        include_str!("waits_tokio.rs"),
        include_str!("gives_up.rs"),
        include_str!("routed.rs"),
    ];
    let page = include_str!("../../../../docs/clients/rust.md");
    let examples = page.split("```rust\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    assert_eq!(examples.collect::<Vec<_>>(), sources);
}

#[test]
fn a_lock_of_the_package_excludes_one_of_the_library() {
    let mut server = Server::start();
    server.say::<u32>(&["LOCK.ACQUIRE", "report", "holder"]);
    let client = server.client.clone();
    let package = thread::spawn(move || package::report(&client).unwrap());
    let client = server.client.clone();
    let library = thread::spawn(move || waits::report(&client, "owner").unwrap());
    server.waiters(2);
    server.say::<u32>(&["LOCK.RELEASE", "report", "holder"]);
    package.join().unwrap();
    library.join().unwrap();
    server.free("report");
}

/// Waits are given up while another client acquires and releases the lock.
#[tokio::test(flavor = "multi_thread")]
async fn giving_up_leaves_nothing() {
    let mut server = Server::start();
    let mut waits = waits_tokio::for_waiting(&server.client).await.unwrap();
    let mut other = waits_tokio::for_waiting(&server.client).await.unwrap();
    let (mut granted, mut given_up) = (0, 0);
    for round in 0..300 {
        let owner = format!("late{round}");
        server.say::<u32>(&["LOCK.ACQUIRE", "a", "holder"]);
        let command = cmd("LOCK.ACQUIRE").arg("a").arg(&owner).arg("BLOCK").arg(0).take();
        let mut connection = waits.clone();
        let mut wait = tokio::spawn(async move { command.query_async::<Option<u32>>(&mut connection).await });
        let mut own = server.client.get_connection().unwrap();
        let time = Duration::from_micros(round * 7);
        let hands_on = thread::spawn(move || {
            thread::sleep(time);
            cmd("LOCK.RELEASE").arg("a").arg("holder").exec(&mut own).unwrap();
        });
        match timeout(Duration::from_millis(1), &mut wait).await {
            Ok(ended) => {
                assert_eq!(ended.unwrap(), Ok(Some(1)));
                granted += 1;
                server.say::<u32>(&["LOCK.RELEASE", "a", &owner]);
            }
            Err(_) => {
                gives_up::give_up(wait, "a", &owner, &mut other).await.unwrap();
                given_up += 1;
            }
        }
        hands_on.join().unwrap();
        assert!(!server.is_held("a"), "after {granted} granted and {given_up} given up");
    }
    assert_eq!(cmd("PING").query_async(&mut waits).await, Ok("PONG".to_string()));
    server.waiters(0);
    server.free("a");
}

#[test]
fn a_routed_command_is_sent_to_its_node_at_once() {
    let mut nodes = cluster();
    let client = ClusterClient::new(vec![format!("redis://127.0.0.1:{}/", nodes[0].port())]).unwrap();
    let mut connection = client.get_connection().unwrap();
    for (key, node) in [("b", 0), ("c", 1), ("a", 2)] {
        let keys = [format!("{{{key}}}1"), format!("{{{key}}}2")];
        let acquire = cmd("LOCK.MACQUIRE").arg(2).arg(&keys).arg("owner").take();
        assert_eq!(connection.route_command(&acquire, routed::to_master_of(&keys[0])), Ok(Value::Int(2)));
        assert!(nodes[node].is_held(&keys[1]));
    }
    for mut node in nodes {
        assert!(!node.say::<String>(&["INFO", "errorstats"]).contains("MOVED"));
    }
}
