//! `redis::aio::MultiplexedConnection`, on tokio.

use std::future::Future;
use std::time::{Duration, Instant};

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{cmd, AsyncConnectionConfig, Client, RedisResult};
use tokio::time::timeout;

use super::{acquire, give_up, Server, DEFAULT, SHORT};

/// A connection as it is by default.
async fn connection(client: &Client) -> MultiplexedConnection {
    answered(async || client.get_multiplexed_async_connection().await).await
}

/// One for waits.
async fn waiting(client: &Client) -> MultiplexedConnection {
    let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
    client.get_multiplexed_async_connection_with_config(&config).await.unwrap()
}

/// Whether a future has no result after a while. It is dropped then.
pub async fn stalls<T>(future: impl Future<Output = T>) -> bool {
    timeout(SHORT, future).await.is_err()
}

/// The future of a wait is dropped when the server has the wait. Before that redis-rs may not send it at all.
pub async fn is_dropped(server: &mut Server, mut connection: impl ConnectionLike + Send + 'static) {
    let wait = tokio::spawn(async move { acquire("late", 0).query_async::<u32>(&mut connection).await });
    server.waiters(1);
    wait.abort();
    assert!(wait.await.unwrap_err().is_cancelled());
}

/// A wait is over for its caller after `limit`, and goes on in the server. It is asked for again if it was not sent in
/// that time.
pub async fn times_out(server: &mut Server, connection: &mut impl ConnectionLike, limit: Duration) {
    let wait = acquire("late", 0).arg("ONCE").take();
    answered(async || {
        let start = Instant::now();
        let error = wait.query_async::<u32>(connection).await.unwrap_err();
        assert!(error.is_timeout() && start.elapsed() >= limit);
        if server.say::<String>(&["INFO", "lock"]).contains("lock_waiters:1\r") {
            Ok(())
        } else {
            Err(error)
        }
    })
    .await;
}

/// What is answered in the end, of something with a time-out that may be too short.
pub async fn answered<T>(mut ask: impl AsyncFnMut() -> RedisResult<T>) -> T {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(error) => assert!(Instant::now() < end, "{error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_default_time_out_leaves_a_ghost() {
    let mut server = Server::held();
    let mut connection = connection(&server.client).await;
    times_out(&mut server, &mut connection, DEFAULT).await;
    server.hand_on();
    assert_eq!(server.holds("late"), 1, "nobody has read that");
    assert_eq!(answered(async || cmd("PING").query_async::<String>(&mut connection).await).await, "PONG");
    assert_eq!(server.say::<u32>(&["LOCK.CANCEL", "a", "late", "RELEASE"]), 2);
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
    is_dropped(&mut server, connection.clone()).await;
    server.hand_on();
    assert_eq!(server.holds("late"), 1, "nobody has read that");
    assert_eq!(give_up("late").query_async(&mut connection).await, Ok(2));
    server.free("a");
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_alone_does_not_take_a_grant_back() {
    let mut server = Server::held();
    let connection = waiting(&server.client).await;
    is_dropped(&mut server, connection.clone()).await;
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
    let connection = waiting(&server.client).await;
    let clone = connection.clone();
    is_dropped(&mut server, connection.clone()).await;
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
