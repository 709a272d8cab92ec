//! The examples of docs/clients/rust.md, word by word.

pub mod gives_up;
pub mod package;
pub mod routed;
pub mod waits;
pub mod waits_tokio;

use std::thread;
use std::time::Duration;

use tokio::time::timeout;

use super::{acquire, Server};

#[test]
fn the_page_has_what_is_tested_here() {
    let sources = [
        include_str!("package.rs"),
        include_str!("waits.rs"),
        include_str!("waits_tokio.rs"),
        include_str!("gives_up.rs"),
        include_str!("routed.rs"),
    ];
    let page = include_str!("../../../../../docs/clients/rust.md");
    let examples = page.split("```rust\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    assert_eq!(examples.collect::<Vec<_>>(), sources);
}

#[test]
fn by_the_package_and_by_the_library_they_exclude_each_other() {
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

/// Waits are given up while the lock is handed to and fro.
#[tokio::test(flavor = "multi_thread")]
async fn giving_up_leaves_nothing() {
    let mut server = Server::start();
    let mut waits = waits_tokio::for_waiting(&server.client).await.unwrap();
    let mut other = waits_tokio::for_waiting(&server.client).await.unwrap();
    let (mut granted, mut given_up) = (0, 0);
    for round in 0..300 {
        let owner = format!("late{round}");
        server.take();
        let (command, mut connection) = (acquire(&owner, 0), waits.clone());
        let mut wait = tokio::spawn(async move { command.query_async::<Option<u32>>(&mut connection).await });
        let mut own = server.client.get_connection().unwrap();
        let time = Duration::from_micros(round * 7);
        let hands_on = thread::spawn(move || {
            thread::sleep(time);
            redis::cmd("LOCK.RELEASE").arg("a").arg("holder").exec(&mut own).unwrap();
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
        assert_eq!(server.holds(&owner), 0, "after {granted} granted and {given_up} given up");
    }
    assert_eq!(redis::cmd("PING").query_async(&mut waits).await, Ok("PONG".to_string()));
    server.waiters(0);
    server.free("a");
}
