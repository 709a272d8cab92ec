//! The settings of a lock, and its commands.

use std::time::Duration;

use redis::{cmd, Cmd};

/// The kind of lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Lock,
    Fair,
    Read,
    Write,
    Multi,
    Semaphore,
}

/// Everything that is sent to the server about a lock, except the owner.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    pub kind: Kind,
    /// One key, or any number for [`Kind::Multi`]; in a cluster they must share a slot.
    pub keys: Vec<Vec<u8>>,
    pub limit: u32,
    pub permits: u32,
    pub lease: Duration,
    pub session: bool,
    pub fenced: bool,
    pub replicas: Option<(u32, Duration)>,
    pub renew: bool,
    pub watch: bool,
}

impl Spec {
    pub fn new(kind: Kind, keys: Vec<Vec<u8>>) -> Self {
        Self {
            kind,
            keys,
            limit: 1,
            permits: 1,
            lease: Duration::from_secs(30),
            session: false,
            fenced: false,
            replicas: None,
            renew: true,
            watch: false,
        }
    }

    /// The key by which all commands of this lock are routed.
    pub fn key(&self) -> &[u8] {
        self.keys.first().map_or(&[], Vec::as_slice)
    }

    /// How much longer than its `BLOCK` a reply may take: the time for replicas.
    pub fn replicas_time(&self) -> Duration {
        self.replicas.map_or(Duration::ZERO, |(_, time)| time)
    }

    /// Requests the lock, with `ONCE`, so that it can be sent again. `block`: milliseconds; 0 has no limit, `None` only
    /// tries.
    pub fn acquire(&self, owner: &str, block: Option<u64>) -> Cmd {
        let mut command = match self.kind {
            Kind::Lock => self.keyed("LOCK.ACQUIRE", owner),
            Kind::Fair => self.keyed("LOCK.FAIR", owner),
            Kind::Read => self.keyed("LOCK.RWREAD", owner),
            Kind::Write => self.keyed("LOCK.RWWRITE", owner),
            Kind::Multi => self.counted("LOCK.MACQUIRE", owner),
            Kind::Semaphore => {
                let mut command = self.keyed("LOCK.SEMAPHORE", owner);
                command.arg(self.limit).arg("PERMITS").arg(self.permits);
                command
            }
        };
        self.lease(&mut command);
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
            return self.counted("LOCK.MRELEASE", owner);
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
        self.keys.iter().map(|key| on("LOCK.RELEASE", key, owner)).collect()
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

    /// Ends the wait, but does not release a hold.
    #[cfg(feature = "sync")]
    pub fn end_wait(&self, owner: &str) -> Cmd {
        self.keyed("LOCK.CANCEL", owner)
    }

    /// Renews the lease, or binds the hold to the connection of the commands: a command for each key.
    pub fn renew(&self, owner: &str) -> Vec<Cmd> {
        let one = |key: &Vec<u8>| {
            let mut command = on("LOCK.RENEW", key, owner);
            self.lease(&mut command);
            self.acknowledged(&mut command);
            command
        };
        self.keys.iter().map(one).collect()
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

    fn lease(&self, command: &mut Cmd) {
        if self.session {
            command.arg("SESSION");
        } else {
            command.arg("PX").arg(self.lease.as_millis() as u64);
        }
    }

    fn acknowledged(&self, command: &mut Cmd) {
        if let Some((replicas, time)) = self.replicas {
            command.arg("REPLICAS").arg(replicas).arg(time.as_millis() as u64);
        }
    }

    fn which(&self, command: &mut Cmd) {
        match self.kind {
            Kind::Read => command.arg("READ"),
            Kind::Write => command.arg("WRITE"),
            Kind::Semaphore => command.arg("PERMITS").arg(self.permits),
            Kind::Lock | Kind::Fair | Kind::Multi => command,
        };
    }
}

fn on(name: &str, key: &[u8], owner: &str) -> Cmd {
    let mut command = cmd(name);
    command.arg(key).arg(owner);
    command
}
