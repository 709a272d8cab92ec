//! `redis::cluster::ClusterConnection`, and the asynchronous one.

use std::thread;
use std::time::Duration;

use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::{cmd, Cmd, ConnectionAddr, RedisResult, Value};

use super::common::{free_port, until};
use super::page::routed::to_master_of;
use super::tasks::{answered, is_dropped, stalls, times_out};
use super::{acquire, give_up, Server, SHORT};

fn node() -> Server {
    Server::with(|| ["--cluster-enabled", "yes", "--cluster-port", &free_port().to_string()].map(Into::into).into())
}

fn port(server: &Server) -> u16 {
    match server.client.get_connection_info().addr() {
        ConnectionAddr::Tcp(_, port) => *port,
        _ => unreachable!(),
    }
}

/// So many masters, each with its part of the slots, in their order.
fn cluster(count: u32) -> Vec<Server> {
    let mut nodes: Vec<Server> = (0..count).map(|_| node()).collect();
    let seed = port(&nodes[0]).to_string();
    let [_, bus]: [String; 2] = nodes[0].say(&["CONFIG", "GET", "cluster-port"]);
    for (part, node) in (0..).zip(&mut nodes) {
        let (first, end) = (16_384 * part / count, 16_384 * (part + 1) / count);
        node.say::<()>(&["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &(end - 1).to_string()]);
        node.say::<()>(&["CLUSTER", "SET-CONFIG-EPOCH", &(part + 1).to_string()]);
        if part > 0 {
            node.say::<()>(&["CLUSTER", "MEET", "127.0.0.1", &seed, &bus]);
        }
    }
    for node in &mut nodes {
        until("the cluster", || {
            let info: String = node.say(&["CLUSTER", "INFO"]);
            let is_whole = info.contains(&format!("cluster_size:{count}\r"));
            (is_whole && info.contains("cluster_state:ok")).then_some(())
        });
    }
    nodes
}

/// A cluster of one, whose lock `a` is held.
fn held() -> Server {
    let mut server = cluster(1).remove(0);
    server.take();
    server
}

fn builder(nodes: &[Server]) -> ClusterClientBuilder {
    ClusterClient::builder(nodes.iter().map(|node| format!("redis://127.0.0.1:{}/", port(node))))
}

fn client(server: &Server) -> ClusterClient {
    builder(std::slice::from_ref(server)).build().unwrap()
}

fn moved(nodes: &mut [Server]) -> u32 {
    nodes.iter_mut().map(Server::moved).sum()
}

/// A key of each node.
const KEYS: [&str; 3] = ["b", "c", "a"];

/// `LOCK.MACQUIRE` or `LOCK.MRELEASE` of two keys.
fn several(name: &str, key: &str) -> Cmd {
    cmd(name).arg(2).arg(format!("{{{key}}}1")).arg(format!("{{{key}}}2")).arg("owner").take()
}

fn one(key: &str) -> Cmd {
    cmd("LOCK.ACQUIRE").arg(key).arg("owner").take()
}

#[test]
fn commands_with_one_key_find_their_node_and_those_with_numkeys_do_not() {
    let mut nodes = cluster(3);
    let mut connection = builder(&nodes).build().unwrap().get_connection().unwrap();
    for key in KEYS {
        assert_eq!(one(key).query(&mut connection), Ok(1));
        for name in ["LOCK.MACQUIRE", "LOCK.MRELEASE"] {
            let said = connection.route_command(&several(name, key), to_master_of(&format!("{{{key}}}1")));
            assert_eq!(said, Ok(Value::Int(2)));
        }
    }
    assert_eq!(moved(&mut nodes), 0);
    for (name, count) in [("LOCK.MACQUIRE", 2), ("LOCK.MRELEASE", 4)] {
        for key in KEYS {
            assert_eq!(several(name, key).query(&mut connection), Ok(2));
        }
        assert_eq!(moved(&mut nodes), count, "of three, the one of the slot of \"2\" was right");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn so_with_the_asynchronous_one() {
    let mut nodes = cluster(3);
    let mut connection = builder(&nodes).build().unwrap().get_async_connection().await.unwrap();
    for key in KEYS {
        assert_eq!(one(key).query_async(&mut connection).await, Ok(1));
        for name in ["LOCK.MACQUIRE", "LOCK.MRELEASE"] {
            let said = connection.route_command(several(name, key), to_master_of(&format!("{{{key}}}1"))).await;
            assert_eq!(said, Ok(Value::Int(2)));
        }
    }
    assert_eq!(moved(&mut nodes), 0);
    for (name, count) in [("LOCK.MACQUIRE", 2), ("LOCK.MRELEASE", 4)] {
        for key in KEYS {
            assert_eq!(several(name, key).query_async(&mut connection).await, Ok(2));
        }
        assert_eq!(moved(&mut nodes), count, "of three, the one of the slot of \"2\" was right");
    }
}

#[test]
fn neither_has_a_time_out_by_default() {
    let server = held();
    let mut connection = client(&server).get_connection().unwrap();
    assert_eq!(acquire("late", 1000).query(&mut connection), Ok(None::<u32>));
}

#[tokio::test(flavor = "multi_thread")]
async fn neither_has_a_time_out_by_default_also_the_asynchronous_one() {
    let server = held();
    let mut connection = client(&server).get_async_connection().await.unwrap();
    assert_eq!(acquire("late", 1000).query_async(&mut connection).await, Ok(None::<u32>));
}

/// How many holds come of one call whose replies are late.
fn holds_after_time_outs(wait: &Cmd) -> u32 {
    let mut server = held();
    let mut connection = client(&server).get_connection().unwrap();
    connection.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    assert!(wait.query::<u32>(&mut connection).unwrap_err().is_timeout());
    server.hand_on();
    // It comes after all that was sent before.
    connection.set_read_timeout(None).unwrap();
    cmd("GET").arg("any").exec(&mut connection).unwrap();
    server.holds("late")
}

#[test]
fn after_a_time_out_the_wait_is_sent_again_and_each_is_a_hold() {
    assert_eq!(holds_after_time_outs(&acquire("late", 0)), 17);
    assert_eq!(holds_after_time_outs(acquire("late", 0).arg("ONCE")), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_out_of_the_asynchronous_one_leaves_a_ghost() {
    let mut server = held();
    let client = builder(std::slice::from_ref(&server)).response_timeout(SHORT).build().unwrap();
    let mut connection = answered(async || client.get_async_connection().await).await;
    times_out(&mut server, &mut connection, SHORT).await;
    server.hand_on();
    assert_eq!(server.holds("late"), 1, "nobody has read that");
}

/// The connection of the one wait is closed while another waits behind it.
fn cut_with_another_behind(server: &mut Server) -> thread::JoinHandle<RedisResult<u32>> {
    server.waiters(1);
    let mut other = server.client.get_connection().unwrap();
    let waits = thread::spawn(move || acquire("other", 0).query(&mut other));
    server.waiters(2);
    server.cut_waiter();
    server.waiters(2);
    waits
}

#[test]
fn a_lost_connection_sends_the_wait_again_which_loses_its_place() {
    let mut server = held();
    let mut connection = client(&server).get_connection().unwrap();
    let waits = thread::spawn(move || acquire("late", 0).query::<u32>(&mut connection));
    let other = cut_with_another_behind(&mut server);
    server.hand_on();
    assert_eq!(other.join().unwrap(), Ok(1));
    assert_eq!(server.say::<u32>(&["LOCK.RELEASE", "a", "other"]), 0);
    assert_eq!(waits.join().unwrap(), Ok(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn so_does_the_asynchronous_one() {
    let mut server = held();
    let mut connection = client(&server).get_async_connection().await.unwrap();
    let waits = tokio::spawn(async move { acquire("late", 0).query_async::<u32>(&mut connection).await });
    let other = cut_with_another_behind(&mut server);
    server.hand_on();
    assert_eq!(other.join().unwrap(), Ok(1));
    assert_eq!(server.say::<u32>(&["LOCK.RELEASE", "a", "other"]), 0);
    assert_eq!(waits.await.unwrap(), Ok(1));
}

#[test]
fn a_fair_wait_that_is_sent_again_keeps_its_place() {
    let mut server = held();
    server.say::<()>(&["CONFIG", "SET", "lock.fair-reserve", "60000"]);
    let mut connection = client(&server).get_connection().unwrap();
    let mut wait = cmd("LOCK.FAIR");
    wait.arg("a").arg("late").arg("BLOCK").arg(0);
    let waits = thread::spawn(move || wait.query::<u32>(&mut connection));
    let other = cut_with_another_behind(&mut server);
    server.hand_on();
    assert_eq!(waits.join().unwrap(), Ok(1));
    assert_eq!(server.say::<u32>(&["LOCK.RELEASE", "a", "late"]), 0);
    assert_eq!(other.join().unwrap(), Ok(1));
}

#[test]
fn without_retries_it_does_not() {
    let mut server = held();
    let client = builder(std::slice::from_ref(&server)).retries(0).build().unwrap();
    let mut connection = client.get_connection().unwrap();
    let waits = thread::spawn(move || acquire("late", 0).query::<u32>(&mut connection));
    server.waiters(1);
    server.cut_waiter();
    assert!(waits.join().unwrap().unwrap_err().is_connection_dropped());
    server.waiters(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_retries_the_asynchronous_one_does_not() {
    let mut server = held();
    let client = builder(std::slice::from_ref(&server)).retries(0).build().unwrap();
    let mut connection = client.get_async_connection().await.unwrap();
    let waits = tokio::spawn(async move { acquire("late", 0).query_async::<u32>(&mut connection).await });
    server.waiters(1);
    server.cut_waiter();
    assert!(waits.await.unwrap().unwrap_err().is_connection_dropped());
    server.waiters(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn clones_wait_behind_the_wait() {
    let mut server = held();
    let client = client(&server);
    let connection = client.get_async_connection().await.unwrap();
    is_dropped(&mut server, connection.clone()).await;
    assert!(stalls(cmd("GET").arg("any").query_async::<Value>(&mut connection.clone())).await);
    // Another connection of the same client is none of those.
    let mut own = client.get_async_connection().await.unwrap();
    assert_eq!(give_up("late").query_async(&mut own).await, Ok(1));
}
