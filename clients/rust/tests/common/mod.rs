//! A server with the module, which ends with the test. `SERVER` and `MODULE` are their paths, set by `make
//! test-client-rust`.

use std::env::var;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use redis::{Client, Connection, FromRedisValue};

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

    /// With more arguments for the server's program; `arguments` is called for each attempt.
    pub fn with(arguments: impl Fn() -> Vec<String>) -> Self {
        (0..10).find_map(|_| Self::on(free_port(), arguments())).expect("no server has started on ten ports")
    }

    /// `None` if its process has ended, as it does when another process has taken one of its ports.
    fn on(port: u16, arguments: Vec<String>) -> Option<Self> {
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let module = var("MODULE").expect("MODULE must be the path of lock.so: use make test-client-rust");
        let program = var("SERVER").unwrap_or_else(|_| "redis-server".into());
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("lock-so-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut process = Command::new(program)
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--loadmodule", &module])
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

    pub fn is_held(&mut self, key: &str) -> bool {
        self.say::<bool>(&["EXISTS", key])
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        std::fs::remove_dir_all(&self.folder).unwrap();
    }
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
