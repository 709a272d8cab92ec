//! What redis-rs itself does with a command that waits, as docs/clients/rust.md has it for those who use no package.
//! A change here, after an update of redis-rs, is a change of that page.
#![cfg(feature = "tokio")]

mod cluster;
#[path = "../common/mod.rs"]
mod common;
mod manager;
mod page;
mod replies;
mod tasks;
mod threads;

use std::time::Duration;

use redis::{cmd, Client, Cmd};

use common::Server;

/// Shorter than any wait here.
const SHORT: Duration = Duration::from_millis(100);
/// The time-out for replies that redis-rs's asynchronous connections have by default.
const DEFAULT: Duration = Duration::from_millis(500);

/// Takes the lock `a`, or waits so many milliseconds for it; 0 is for ever. Without `ONCE`.
fn acquire(owner: &str, block: u32) -> Cmd {
    cmd("LOCK.ACQUIRE").arg("a").arg(owner).arg("PX").arg(60_000).arg("BLOCK").arg(block).take()
}

fn give_up(owner: &str) -> Cmd {
    cmd("LOCK.CANCEL").arg("a").arg(owner).arg("RELEASE").take()
}

impl Server {
    /// One whose lock `a` is held by `holder`.
    fn held() -> Self {
        let mut server = Self::start();
        server.take();
        server
    }

    fn take(&mut self) {
        assert_eq!(self.say::<u32>(&["LOCK.ACQUIRE", "a", "holder"]), 1);
    }

    /// Hands the lock on to the first that waits.
    fn hand_on(&mut self) {
        assert_eq!(self.say::<u32>(&["LOCK.RELEASE", "a", "holder"]), 0);
    }

    /// How many holds this owner has of the lock `a`.
    fn holds(&mut self, owner: &str) -> u32 {
        self.say::<Option<u32>>(&["HGET", "a", owner]).unwrap_or(0)
    }

    /// How often a command was called.
    fn calls(&mut self, command: &str) -> u32 {
        let stats: String = self.say(&["INFO", "commandstats"]);
        let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
        line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
    }

    /// How often it has sent a client to another node.
    fn moved(&mut self) -> u32 {
        let stats: String = self.say(&["INFO", "errorstats"]);
        let line = stats.lines().find_map(|line| line.strip_prefix("errorstat_MOVED:count="));
        line.map_or(0, |line| line.trim_end().parse().unwrap())
    }

    /// Closes the connection of who waits.
    fn cut_waiter(&mut self) {
        let info: std::collections::HashMap<String, redis::Value> = self.say(&["LOCK.INFO", "a"]);
        let waiters: Vec<std::collections::HashMap<String, redis::Value>> =
            redis::from_redis_value_ref(&info["waiters"]).unwrap();
        let id: u64 = redis::from_redis_value_ref(&waiters[0]["client"]).unwrap();
        assert_eq!(self.say::<u32>(&["CLIENT", "KILL", "ID", &id.to_string()]), 1);
    }
}

/// A client of the same server that speaks the newer protocol.
fn resp3(client: &Client) -> Client {
    Client::open(format!("redis://{}/?protocol=resp3", client.get_connection_info().addr())).unwrap()
}
