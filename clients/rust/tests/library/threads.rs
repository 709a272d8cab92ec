//! `redis::Connection`.

use std::thread;
use std::time::Duration;

use redis::cmd;

use super::{acquire, give_up, Server, SHORT};

#[test]
fn it_has_no_time_out_or_a_longer_one() {
    let server = Server::held();
    let mut connection = server.client.get_connection().unwrap();
    assert_eq!(acquire("late", 1000).query(&mut connection), Ok(None::<u32>));
    connection.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert_eq!(acquire("late", 1000).query(&mut connection), Ok(None::<u32>));
}

#[test]
fn a_time_out_leaves_a_ghost() {
    let mut server = Server::held();
    let mut connection = server.client.get_connection().unwrap();
    connection.set_read_timeout(Some(SHORT)).unwrap();
    let error = acquire("late", 0).query::<u32>(&mut connection).unwrap_err();
    assert!(error.is_timeout());
    server.waiters(1);
    server.hand_on();
    assert_eq!(server.holds("late"), 1, "nobody has read that");

    connection.set_read_timeout(None).unwrap();
    // The answer that came late is not taken for the next one.
    assert_eq!(cmd("PING").query(&mut connection), Ok("PONG".to_string()));
    assert_eq!(give_up("late").query(&mut connection), Ok(2));
    server.free("a");
}

#[test]
fn after_a_time_out_nothing_else_gets_through() {
    let mut server = Server::held();
    let mut connection = server.client.get_connection().unwrap();
    connection.set_read_timeout(Some(SHORT)).unwrap();
    assert!(acquire("late", 0).query::<u32>(&mut connection).unwrap_err().is_timeout());
    server.waiters(1);
    assert!(give_up("late").query::<u32>(&mut connection).unwrap_err().is_timeout());
    // On another connection it does.
    assert_eq!(give_up("late").query(&mut server.client.get_connection().unwrap()), Ok(1));
    server.waiters(0);
}

#[test]
fn closing_it_ends_the_wait() {
    let mut server = Server::held();
    let mut connection = server.client.get_connection().unwrap();
    connection.set_read_timeout(Some(SHORT)).unwrap();
    assert!(acquire("late", 0).query::<u32>(&mut connection).unwrap_err().is_timeout());
    server.waiters(1);
    drop(connection);
    server.waiters(0);
    server.hand_on();
    server.free("a");
}

#[test]
fn another_connection_gives_up_for_it() {
    let mut server = Server::held();
    let mut connection = server.client.get_connection().unwrap();
    let waits = thread::spawn(move || acquire("late", 0).query::<Option<u32>>(&mut connection));
    server.waiters(1);
    assert_eq!(give_up("late").query(&mut server.client.get_connection().unwrap()), Ok(1));
    assert_eq!(waits.join().unwrap(), Ok(None));
}

#[test]
fn a_connection_that_was_lost_is_not_replaced_and_nothing_is_sent_again() {
    let mut server = Server::held();
    let mut connection = server.client.get_connection().unwrap();
    let calls = server.calls("lock.acquire");
    let waits = thread::spawn(move || (acquire("late", 0).query::<u32>(&mut connection), connection));
    server.waiters(1);
    server.cut_waiter();
    let (said, mut connection) = waits.join().unwrap();
    assert!(said.unwrap_err().is_connection_dropped());
    assert!(cmd("PING").query::<String>(&mut connection).unwrap_err().is_connection_dropped());
    server.waiters(0);
    assert!(server.calls("lock.acquire") <= calls + 1);
}
