//! A server with the module, which ends with the test. `SERVER` and `MODULE` name them; `make test-client-rust` does.

use std::env::var;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
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
        Self::with(&[])
    }

    /// With more arguments for the server's program.
    pub fn with(arguments: &[&str]) -> Self {
        let module = var("MODULE").expect("MODULE has to name lock.so: say make test-client-rust");
        let program = var("SERVER").unwrap_or_else(|_| "redis-server".into());
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let folder = std::env::temp_dir().join(format!("lock-so-{}-{port}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let process = Command::new(program)
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--loadmodule", &module])
            .args(arguments)
            .current_dir(&folder)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let client = Client::open(format!("redis://127.0.0.1:{port}/")).unwrap();
        let own = until("the server to listen", || client.get_connection().ok());
        Self { process, folder, client, own }
    }

    pub fn say<T: FromRedisValue>(&mut self, words: &[&str]) -> T {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]).query(&mut self.own).unwrap()
    }

    /// Until so many wait in the server.
    pub fn waiters(&mut self, count: usize) {
        let wanted = format!("lock_waiters:{count}\r");
        until("the waiters", || self.say::<String>(&["INFO", "lock"]).contains(&wanted).then_some(()));
    }

    /// Until nobody has the lock, or waits for it.
    pub fn free(&mut self, key: &str) {
        until("the lock to be free", || {
            (self.say::<redis::Value>(&["LOCK.INFO", key]) == redis::Value::Nil).then_some(())
        });
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

/// What `look` finds, as soon as it finds something.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "waited for {what} in vain");
        std::thread::yield_now();
    }
}
