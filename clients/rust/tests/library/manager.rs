//! `redis::aio::ConnectionManager`.

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::cmd;

use super::tasks::{is_dropped, stalls, times_out};
use super::{acquire, Server, DEFAULT};

async fn waiting(server: &Server) -> ConnectionManager {
    let config = ConnectionManagerConfig::new().set_response_timeout(None);
    ConnectionManager::new_with_config(server.client.clone(), config).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_default_time_out_leaves_a_ghost() {
    let mut server = Server::held();
    let mut manager = ConnectionManager::new(server.client.clone()).await.unwrap();
    times_out(&mut server, &mut manager, DEFAULT).await;
    server.hand_on();
    assert_eq!(server.holds("late"), 1, "nobody has read that");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_it_the_wait_is_whole() {
    let server = Server::held();
    let mut manager = waiting(&server).await;
    assert_eq!(acquire("late", 1000).query_async(&mut manager).await, Ok(None::<u32>));
}

#[tokio::test(flavor = "multi_thread")]
async fn clones_wait_behind_the_wait() {
    let mut server = Server::held();
    let mut manager = waiting(&server).await;
    is_dropped(&mut server, manager.clone()).await;
    assert!(stalls(cmd("PING").query_async::<String>(&mut manager)).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn it_connects_again_and_sends_nothing_again() {
    let mut server = Server::held();
    let manager = waiting(&server).await;
    let calls = server.calls("lock.acquire");
    let mut clone = manager.clone();
    let waits = tokio::spawn(async move { acquire("late", 0).query_async::<u32>(&mut clone).await });
    server.waiters(1);
    server.cut_waiter();
    assert!(waits.await.unwrap().unwrap_err().is_connection_dropped());
    assert_eq!(cmd("PING").query_async(&mut manager.clone()).await, Ok("PONG".to_string()));
    server.waiters(0);
    assert!(server.calls("lock.acquire") <= calls + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_ends_without_a_word() {
    let mut server = Server::start();
    let mut manager = waiting(&server).await;
    let mut session = cmd("LOCK.ACQUIRE");
    session.arg("a").arg("bound").arg("SESSION").exec_async(&mut manager).await.unwrap();
    assert!(server.is_held("a"));
    server.cut_idle();
    // The loss is noticed in the background, or by the next command.
    server.free("a");
    let mut said = cmd("PING").query_async::<String>(&mut manager).await;
    if said.is_err() {
        said = cmd("PING").query_async(&mut manager).await;
    }
    assert_eq!(said, Ok("PONG".to_string()));
}
