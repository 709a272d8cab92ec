//! `redis::aio::MultiplexedConnection`, on tokio.

use std::future::Future;
use std::time::Instant;

use redis::aio::MultiplexedConnection;
use redis::{cmd, AsyncConnectionConfig, Client, RedisResult};
use tokio::time::timeout;

use super::{acquire, give_up, Server, DEFAULT, SHORT};

/// A connection as it is by default.
async fn connection(client: &Client) -> MultiplexedConnection {
    client.get_multiplexed_async_connection().await.unwrap()
}

/// One for waits.
async fn waiting(client: &Client) -> MultiplexedConnection {
    let config = AsyncConnectionConfig::new().set_response_timeout(None);
    client.get_multiplexed_async_connection_with_config(&config).await.unwrap()
}

/// Whether a future has no result after a while. It is dropped then.
pub async fn stalls<T>(future: impl Future<Output = T>) -> bool {
    timeout(SHORT, future).await.is_err()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_default_time_out_leaves_a_ghost() {
    let mut server = Server::held();
    let mut connection = connection(&server.client).await;
    let start = Instant::now();
    let error = acquire("late", 10_000).query_async::<u32>(&mut connection).await.unwrap_err();
    assert!(error.is_timeout() && start.elapsed() >= DEFAULT);
    server.waiters(1);
    server.hand_on();
    assert_eq!(server.holds("late"), 1, "nobody has read that");
    assert_eq!(cmd("PING").query_async(&mut connection).await, Ok("PONG".to_string()));
    assert_eq!(give_up("late").query_async(&mut connection).await, Ok(2));
    server.free("a");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_it_the_wait_is_whole() {
    let server = Server::held();
    let mut connection = waiting(&server.client).await;
    assert_eq!(acquire("late", 1000).query_async(&mut connection).await, Ok(None::<u32>));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_future_leaves_a_ghost() {
    let mut server = Server::held();
    let mut connection = waiting(&server.client).await;
    assert!(stalls(acquire("late", 0).query_async::<u32>(&mut connection)).await);
    server.waiters(1);
    server.hand_on();
    assert_eq!(server.holds("late"), 1, "nobody has read that");
    assert_eq!(give_up("late").query_async(&mut connection).await, Ok(2));
    server.free("a");
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_alone_does_not_take_a_grant_back() {
    let mut server = Server::held();
    let mut connection = waiting(&server.client).await;
    assert!(stalls(acquire("late", 0).query_async::<u32>(&mut connection)).await);
    server.waiters(1);
    server.hand_on();
    assert_eq!(server.say::<u32>(&["LOCK.CANCEL", "a", "late"]), 0);
    assert_eq!(server.holds("late"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn clones_wait_behind_the_wait_and_so_does_the_release() {
    let mut server = Server::start();
    let mut connection = waiting(&server.client).await;
    let ask = |words: &'static [&'static str]| {
        let mut clone = connection.clone();
        tokio::spawn(async move { cmd(words[0]).arg(&words[1..]).query_async::<redis::Value>(&mut clone).await })
    };
    acquire("holder", 1).exec_async(&mut connection.clone()).await.unwrap();
    let mut waits = ask(&["LOCK.ACQUIRE", "a", "late", "BLOCK", "0"]);
    server.waiters(1);
    let mut ping = ask(&["PING"]);
    let mut release = ask(&["LOCK.RELEASE", "a", "holder"]);
    assert!(stalls(&mut ping).await && stalls(&mut release).await && stalls(&mut waits).await);
    server.hand_on();
    assert_eq!(waits.await.unwrap(), Ok(redis::Value::Int(1)));
    assert!(ping.await.unwrap().is_ok());
    assert_eq!(release.await.unwrap().unwrap_err().code(), Some("NOTHELD"), "it came too late");
    give_up("late").exec_async(&mut connection).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn it_closes_with_its_last_clone() {
    let mut server = Server::held();
    let mut connection = waiting(&server.client).await;
    let clone = connection.clone();
    assert!(stalls(acquire("late", 0).query_async::<u32>(&mut connection)).await);
    drop(connection);
    server.waiters(1);
    drop(clone);
    server.waiters(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_was_lost_is_not_replaced_and_nothing_is_sent_again() {
    let mut server = Server::held();
    let mut connection = waiting(&server.client).await;
    let calls = server.calls("lock.acquire");
    let mut clone = connection.clone();
    let waits = tokio::spawn(async move { acquire("late", 0).query_async::<u32>(&mut clone).await });
    server.waiters(1);
    server.cut_waiter();
    assert!(waits.await.unwrap().unwrap_err().is_connection_dropped());
    let said: RedisResult<String> = cmd("PING").query_async(&mut connection).await;
    assert!(said.unwrap_err().is_connection_dropped());
    assert!(server.calls("lock.acquire") <= calls + 1);
}
