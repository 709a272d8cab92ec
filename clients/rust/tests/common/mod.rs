//! A server with the module, which ends with the test. `SERVER` and `MODULE` are their paths, set by `make
//! test-client-rust`.

use std::env::var;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use redis::{Client, Connection, ConnectionAddr, FromRedisValue};

pub struct Server {
    process: Child,
    folder: std::path::PathBuf,
    pub client: Client,
    /// A connection of the test's own.
    own: Connection,
}

impl Server {
    pub fn start() -> Self {
        Self::with(Vec::new)
    }

    /// Without the module.
    pub fn bare() -> Self {
        (0..10).find_map(|_| Self::on(free_port(), Vec::new())).expect("no server has started on ten ports")
    }

    /// With more arguments for the server's program; `arguments` is called for each attempt.
    pub fn with(arguments: impl Fn() -> Vec<String>) -> Self {
        let module = var("MODULE").expect("MODULE must be the path of lock.so: use make test-client-rust");
        let loading = || [vec!["--loadmodule".into(), module.clone()], arguments()].concat();
        (0..10).find_map(|_| Self::on(free_port(), loading())).expect("no server has started on ten ports")
    }

    /// `None` if its process has ended, as it does when another process has taken one of its ports.
    fn on(port: u16, arguments: Vec<String>) -> Option<Self> {
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let program = var("SERVER").unwrap_or_else(|_| "redis-server".into());
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("lock-so-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut process = Command::new(program)
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .args(arguments)
            .current_dir(&folder)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let client = Client::open(format!("redis://127.0.0.1:{port}/")).unwrap();
        let ours = format!("process_id:{}\r", process.id());
        let own = until("the server to listen", || {
            if process.try_wait().unwrap().is_some() {
                return Some(None);
            }
            // Another process may listen there.
            let mut own = client.get_connection_with_timeout(Duration::from_secs(1)).ok()?;
            let info: String = redis::cmd("INFO").arg("server").query(&mut own).ok()?;
            info.contains(&ours).then_some(Some(own))
        });
        if own.is_none() {
            std::fs::remove_dir_all(&folder).unwrap();
        }
        Some(Self { process, folder, client, own: own? })
    }

    pub fn say<T: FromRedisValue>(&mut self, words: &[&str]) -> T {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]).query(&mut self.own).unwrap()
    }

    /// Waits until the server has this number of waiters.
    pub fn waiters(&mut self, count: usize) {
        self.shows(&format!("lock_waiters:{count}"));
    }

    /// Waits until `INFO lock` has this line.
    pub fn shows(&mut self, line: &str) {
        let wanted = format!("\n{line}\r");
        until(line, || self.say::<String>(&["INFO", "lock"]).contains(&wanted).then_some(()));
    }

    /// Waits until the lock has neither holders nor waiters.
    pub fn free(&mut self, key: &str) {
        until("the lock to be free", || {
            (self.say::<redis::Value>(&["LOCK.INFO", key]) == redis::Value::Nil).then_some(())
        });
    }

    /// Closes idle connections, except the test's own.
    pub fn cut_idle(&mut self) {
        for client in self.say::<String>(&["CLIENT", "LIST"]).lines() {
            if client.contains(" flags=N ") && !client.contains(" cmd=client|list ") {
                let id = client.strip_prefix("id=").and_then(|rest| rest.split(' ').next()).unwrap();
                self.say::<u32>(&["CLIENT", "KILL", "ID", id]);
            }
        }
    }

    pub fn port(&self) -> u16 {
        match self.client.get_connection_info().addr() {
            ConnectionAddr::Tcp(_, port) => *port,
            _ => unreachable!(),
        }
    }

    /// Stops the process until the result is dropped.
    pub fn stopped(&self) -> Stopped {
        let stopped = Stopped(self.process.id());
        stopped.signal("-STOP");
        stopped
    }

    /// How many connections it has accepted.
    pub fn connections(&mut self) -> u64 {
        let stats: String = self.say(&["INFO", "stats"]);
        stats.split("total_connections_received:").nth(1).unwrap().lines().next().unwrap().parse().unwrap()
    }

    /// How often a command was executed.
    pub fn calls(&mut self, command: &str) -> u64 {
        let stats: String = self.say(&["INFO", "commandstats"]);
        let calls = stats.split(&format!("cmdstat_{command}:calls=")).nth(1);
        calls.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
    }

    /// The ids of the clients whose last command was this one.
    pub fn whose_last(&mut self, command: &str) -> Vec<String> {
        let named = format!(" cmd={command} ");
        let list: String = self.say(&["CLIENT", "LIST"]);
        let lines = list.lines().filter(|line| line.contains(&named));
        lines.map(|line| line.split(' ').next().unwrap().to_string()).collect()
    }

    /// Ends the waits for this key.
    pub fn cancel_all(&mut self, key: &str) {
        let info: std::collections::HashMap<String, redis::Value> = self.say(&["LOCK.INFO", key]);
        let waiters: Vec<std::collections::HashMap<String, redis::Value>> =
            redis::from_redis_value_ref(&info["waiters"]).unwrap();
        for waiter in waiters {
            let owner: String = redis::from_redis_value_ref(&waiter["owner"]).unwrap();
            assert_eq!(self.say::<u32>(&["LOCK.CANCEL", key, &owner]), 1);
        }
    }

    pub fn is_held(&mut self, key: &str) -> bool {
        self.say::<bool>(&["EXISTS", key])
    }
}

/// A process that is stopped.
pub struct Stopped(u32);

impl Stopped {
    fn signal(&self, signal: &str) {
        assert!(Command::new("kill").args([signal, &self.0.to_string()]).status().unwrap().success());
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        self.signal("-CONT");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        std::fs::remove_dir_all(&self.folder).unwrap();
    }
}

/// Three masters, each with a third of the slots, in order.
pub fn cluster() -> Vec<Server> {
    let arguments = || ["--cluster-enabled", "yes", "--cluster-port", &free_port().to_string()].map(Into::into).into();
    let mut nodes: Vec<Server> = (0..3).map(|_| Server::with(arguments)).collect();
    let seed = nodes[0].port().to_string();
    let [_, bus]: [String; 2] = nodes[0].say(&["CONFIG", "GET", "cluster-port"]);
    for (part, node) in (0..).zip(&mut nodes) {
        let (first, end) = (16_384 * part / 3, 16_384 * (part + 1) / 3);
        node.say::<()>(&["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &(end - 1).to_string()]);
        node.say::<()>(&["CLUSTER", "SET-CONFIG-EPOCH", &(part + 1).to_string()]);
        node.say::<()>(&["CLUSTER", "MEET", "127.0.0.1", &seed, &bus]);
    }
    for node in &mut nodes {
        until("the cluster", || {
            let info: String = node.say(&["CLUSTER", "INFO"]);
            (info.contains("cluster_size:3\r") && info.contains("cluster_state:ok")).then_some(())
        });
    }
    nodes
}

/// A port on which no process listens now.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Calls `look` until it returns something.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "timed out waiting for {what}");
        std::thread::yield_now();
    }
}
