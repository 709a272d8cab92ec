//! The settings of a lock, and its commands.

use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use redis::{cmd, from_redis_value, Arg, Cmd, ErrorKind, FromRedisValue, RedisError, Value};
use uuid::Uuid;

use crate::nodes::Nodes;
use crate::util::{at_least_1_ms, in_ms, is_full, is_unknown};
use crate::Error;

/// The kind of lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Lock,
    Fair,
    Read,
    Write,
    Multi,
    Semaphore,
    /// Not a lock: nobody holds it.
    Latch,
    /// Not a lock: a list, and the elements that are pushed to it later.
    Queue,
}

/// Why a lock is not held, if only the server knows more.
pub(crate) const REPORTED: &str = "the server reported its loss";

impl Kind {
    /// Its name in messages.
    fn name(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::Fair => "fair lock",
            Self::Read => "read lock",
            Self::Write => "write lock",
            Self::Multi => "multi-key lock",
            Self::Semaphore => "semaphore",
            Self::Latch => "latch",
            Self::Queue => "delayed queue",
        }
    }
}

/// A new owner, `host:pid:random`.
pub(crate) fn new_owner() -> String {
    format!("{}{}", process(), Uuid::new_v4().simple())
}

/// How the owners of this process begin.
pub(crate) fn process() -> String {
    static HOST: OnceLock<String> = OnceLock::new();
    let host = HOST.get_or_init(|| {
        let named = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
        let named = named.or_else(|| std::env::var("HOSTNAME").ok()).or_else(|| std::env::var("COMPUTERNAME").ok());
        named.map(|name| name.trim().to_string()).filter(|name| !name.is_empty()).unwrap_or_else(|| "unknown".into())
    });
    format!("{host}:{}:", std::process::id())
}

/// Everything that is sent to the server about a lock, except the owner.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    pub kind: Kind,
    /// One key, or any number for [`Kind::Multi`].
    pub keys: Vec<Vec<u8>>,
    /// Of [`Kind::Multi`] with modes: how many keys are read, the first ones; the others are written.
    pub reads: Option<usize>,
    pub limit: u32,
    pub permits: Option<u32>,
    pub lease: Duration,
    pub session: bool,
    pub fenced: bool,
    pub replicas: Option<(u32, Duration)>,
    pub renew: bool,
    /// Whether the server is to report a loss.
    pub watch: bool,
    /// Whether a thread that holds it enters it again.
    pub reentrant: bool,
    /// Whether it is one of several that are acquired together, of different factories.
    pub is_spread: bool,
    /// How long one command blocks at most, if less than elsewhere.
    pub max_block: Duration,
}

impl Spec {
    pub fn new(kind: Kind, keys: Vec<Vec<u8>>) -> Self {
        Self {
            kind,
            keys,
            reads: None,
            limit: 1,
            permits: None,
            lease: Duration::from_secs(30),
            session: false,
            fenced: false,
            replicas: None,
            renew: true,
            watch: false,
            reentrant: false,
            is_spread: false,
            max_block: Duration::MAX,
        }
    }

    /// The key by which all commands of this lock are routed.
    pub fn key(&self) -> &[u8] {
        self.keys.first().map_or(&[], Vec::as_slice)
    }

    /// The same lock, only for the keys with these numbers.
    pub fn part(&self, numbers: &[usize]) -> Self {
        let keys = numbers.iter().map(|&number| self.keys[number].clone()).collect();
        let reads = self.reads.map(|reads| numbers.iter().filter(|&&number| number < reads).count());
        Self { keys, reads, ..self.clone() }
    }

    /// How many permits are acquired; 1 for a lock.
    pub fn permits(&self) -> u32 {
        self.permits.unwrap_or(1)
    }

    /// Refuses invalid options.
    pub fn check(&self) -> Result<(), Error> {
        let semaphore = self.kind == Kind::Semaphore;
        let tokens = matches!(self.kind, Kind::Lock | Kind::Fair | Kind::Write);
        let text = if self.keys.is_empty() {
            String::from("keys must not be empty")
        } else if let Some(text) = bad_lease(self.lease) {
            text
        } else if semaphore && self.limit == 0 {
            String::from("limit must be at least 1, not 0")
        } else if !semaphore && self.permits.is_some() {
            String::from("permits: only a semaphore has permits")
        } else if semaphore && !(1..=self.limit).contains(&self.permits()) {
            format!("permits must be from 1 to the limit of {}, not {}", self.limit, self.permits())
        } else if self.fenced && !tokens {
            format!("fenced: a {} has no fencing token", self.kind.name())
        } else if self.reentrant && semaphore {
            String::from("reentrant: a semaphore has permits, and no owner that could enter it again")
        } else {
            match self.replicas {
                Some((0, _)) => String::from("replicas must be at least 1, not 0"),
                Some((_, Duration::ZERO)) => String::from("replicas: the time must be greater than 0, not 0"),
                _ => return Ok(()),
            }
        };
        Err(self.invalid(text))
    }

    /// Refuses the new lease of a renewal, if it is invalid.
    pub fn check_renewal(&self, lease: Option<Duration>) -> Result<(), Error> {
        match lease.map(bad_lease) {
            Some(Some(text)) => Err(self.invalid(text)),
            Some(None) if self.session => Err(self.invalid("lease: a session has none")),
            _ => Ok(()),
        }
    }

    pub fn invalid(&self, text: impl Into<String>) -> Error {
        Error::InvalidOption { lock: self.to_string(), text: text.into() }
    }

    /// Whether who holds the other one may enter this one.
    #[cfg(feature = "sync")]
    pub fn is_same(&self, other: &Self) -> bool {
        (self.kind, &self.keys, self.reads) == (other.kind, &other.keys, other.reads)
    }

    /// The error for an error of redis-rs.
    pub fn error(&self, error: RedisError, nodes: &Nodes) -> Error {
        let lock = self.to_string();
        match error.code() {
            Some("NOTHELD") => self.not_held(REPORTED),
            Some("DEADLOCK") => Error::Deadlock { lock, error },
            Some("NOREPLICAS") => Error::NoReplicas { lock, error },
            Some(_) if is_full(&error) => Error::Connection { lock, error },
            Some(_) if is_unknown(&error) => Error::ModuleMissing { lock, address: nodes.address(self.key()) },
            Some(_) => Error::Refused { lock, error },
            None if error.kind() == ErrorKind::UnexpectedReturnType => Error::Refused { lock, error },
            None => Error::Connection { lock, error },
        }
    }

    pub fn closed(&self) -> Error {
        Error::Closed { lock: self.to_string() }
    }

    pub fn not_held(&self, why: &str) -> Error {
        Error::NotHeld { lock: self.to_string(), why: why.to_string() }
    }

    /// Requests the holders of this key, and this number of its waiters.
    pub fn info(key: &[u8], waiters: usize) -> Cmd {
        let mut command = on_key("LOCK.INFO", key);
        command.arg("COUNT").arg(waiters);
        command
    }

    /// Frees this key, whoever holds it.
    pub fn force(key: &[u8]) -> Cmd {
        on_key("LOCK.FORCE", key)
    }

    /// A command whose first argument is the key.
    pub fn named(&self, name: &str) -> Cmd {
        on_key(name, self.key())
    }

    /// A command that the server executes only if the lock is held.
    pub fn guard(&self, owner: &str, command: &Cmd) -> Cmd {
        let mut guarded = self.keyed("LOCK.GUARD", owner);
        for arg in command.args_iter() {
            match arg {
                Arg::Simple(bytes) => guarded.arg(bytes),
                _ => guarded.arg(0), // where a cursor begins
            };
        }
        guarded
    }

    /// Reads a reply in the type that the program wants.
    pub fn read<T: FromRedisValue>(&self, reply: Value, nodes: &Nodes) -> Result<T, Error> {
        from_redis_value(reply).map_err(|error| self.error(error.into(), nodes))
    }

    /// How much longer than its `BLOCK` a reply may take: the time for replicas.
    pub fn replicas_time(&self) -> Duration {
        self.replicas.map_or(Duration::ZERO, |(_, time)| time)
    }

    /// Requests the lock, with `ONCE`, so that it can be sent again. `block`: milliseconds; 0 has no limit, `None` only
    /// tries.
    pub fn acquire(&self, owner: &str, block: Option<u64>) -> Cmd {
        if self.kind == Kind::Latch {
            let mut command = self.named("LATCH.WAIT");
            if let Some(block) = block {
                command.arg("BLOCK").arg(block);
            }
            return command;
        }
        let mut command = match self.kind {
            Kind::Lock => self.keyed("LOCK.ACQUIRE", owner),
            Kind::Fair => self.keyed("LOCK.FAIR", owner),
            Kind::Read => self.keyed("LOCK.RWREAD", owner),
            Kind::Write => self.keyed("LOCK.RWWRITE", owner),
            Kind::Multi => self.moded("LOCK.MACQUIRE", owner),
            Kind::Semaphore | Kind::Latch | Kind::Queue => {
                let mut command = self.keyed("LOCK.SEMAPHORE", owner);
                command.arg(self.limit).arg("PERMITS").arg(self.permits());
                command
            }
        };
        self.leased(&mut command, (!self.session).then_some(self.lease));
        if let Some(block) = block {
            command.arg("BLOCK").arg(block);
        }
        if self.fenced {
            command.arg("FENCED");
        }
        command.arg("ONCE");
        self.acknowledged(&mut command);
        command
    }

    /// Releases the hold; of a multi-key lock all keys, or none.
    pub fn release(&self, owner: &str) -> Cmd {
        if self.kind == Kind::Multi {
            return self.moded("LOCK.MRELEASE", owner);
        }
        let mut command = self.keyed("LOCK.RELEASE", owner);
        self.which(&mut command);
        command
    }

    /// Releases the rest of a multi-key lock of which one key was lost: a command for each key.
    pub fn release_each(&self, owner: &str) -> Vec<Cmd> {
        if self.kind != Kind::Multi {
            return Vec::new();
        }
        let one = |(number, key): (usize, &Vec<u8>)| {
            let mut command = on("LOCK.RELEASE", key, owner);
            command.arg(self.mode(number));
            command
        };
        self.keys.iter().enumerate().map(one).collect()
    }

    /// Ends the wait, or releases the hold if it was granted already. For a multi-key lock it only ends the wait:
    /// if the reply is 0, [`Spec::release`] must follow.
    pub fn cancel(&self, owner: &str) -> Cmd {
        let mut command = self.keyed("LOCK.CANCEL", owner);
        if self.kind != Kind::Multi {
            command.arg("RELEASE");
            self.which(&mut command);
        }
        command
    }

    /// Renews the hold with this lease. Without one the server's default applies, and a session stays one.
    pub fn renew(&self, owner: &str, lease: Option<Duration>) -> Cmd {
        let mut command = self.renewal(owner);
        if lease.is_some() {
            self.leased(&mut command, lease);
        }
        self.acknowledged(&mut command);
        command
    }

    /// Binds the hold to the connection of the command.
    pub fn bind(&self, owner: &str) -> Cmd {
        let mut command = self.renewal(owner);
        self.leased(&mut command, None);
        self.acknowledged(&mut command);
        command
    }

    fn renewal(&self, owner: &str) -> Cmd {
        match self.kind {
            Kind::Multi => self.counted("LOCK.MRENEW", owner),
            _ => self.keyed("LOCK.RENEW", owner),
        }
    }

    /// Waits for the loss of this key: the reply is `LOST`, or null after `block` milliseconds.
    pub fn watch(&self, key: usize, owner: &str, block: u64) -> Cmd {
        let mut command = on("LOCK.WATCH", &self.keys[key], owner);
        command.arg("BLOCK").arg(block);
        command
    }

    fn keyed(&self, name: &str, owner: &str) -> Cmd {
        on(name, self.key(), owner)
    }

    fn counted(&self, name: &str, owner: &str) -> Cmd {
        let mut command = cmd(name);
        command.arg(self.keys.len()).arg(&self.keys).arg(owner);
        command
    }

    fn moded(&self, name: &str, owner: &str) -> Cmd {
        let mut command = self.counted(name, owner);
        if self.reads.is_some() {
            command.arg("MODES").arg((0..self.keys.len()).filter_map(|number| self.mode(number)).collect::<Vec<_>>());
        }
        command
    }

    /// The mode of a key, if it has one.
    fn mode(&self, number: usize) -> Option<&'static str> {
        self.reads.map(|reads| if number < reads { "READ" } else { "WRITE" })
    }

    /// Adds the lease, or that the hold is a session's.
    fn leased(&self, command: &mut Cmd, lease: Option<Duration>) {
        match lease {
            Some(lease) => command.arg("PX").arg(in_ms(lease)),
            None => command.arg("SESSION"),
        };
    }

    fn acknowledged(&self, command: &mut Cmd) {
        if let Some((replicas, time)) = self.replicas {
            command.arg("REPLICAS").arg(replicas).arg(at_least_1_ms(time));
        }
    }

    fn which(&self, command: &mut Cmd) {
        match self.kind {
            Kind::Read => command.arg("READ"),
            Kind::Write => command.arg("WRITE"),
            Kind::Semaphore => command.arg("PERMITS").arg(self.permits()),
            Kind::Lock | Kind::Fair | Kind::Multi | Kind::Latch | Kind::Queue => command,
        };
    }
}

/// Why this is no lease. One below a millisecond would probably be a wrong unit.
fn bad_lease(lease: Duration) -> Option<String> {
    match lease {
        Duration::ZERO => Some(String::from("lease must be greater than 0, not 0")),
        short if short < Duration::from_millis(1) => Some(format!("lease must be at least 1 ms, not {short:?}")),
        _ => None,
    }
}

/// How messages name the lock: its kind and its keys.
impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.name())?;
        for (number, key) in self.keys.iter().enumerate() {
            f.write_str(if number > 0 { ", " } else { " " })?;
            match std::str::from_utf8(key) {
                Ok(key) => write!(f, "{key:?}")?,
                Err(_) => write!(f, "\"{}\"", shown(key))?,
            }
        }
        Ok(())
    }
}

/// A key or an owner as text.
pub(crate) fn shown(bytes: &[u8]) -> String {
    std::str::from_utf8(bytes).map_or_else(|_| bytes.escape_ascii().to_string(), str::to_string)
}

pub(crate) fn on_key(name: &str, key: &[u8]) -> Cmd {
    let mut command = cmd(name);
    command.arg(key);
    command
}

fn on(name: &str, key: &[u8], owner: &str) -> Cmd {
    let mut command = on_key(name, key);
    command.arg(owner);
    command
}
