//! The fields of requests, the same for both flavours.

use std::io::Write;
use std::time::Duration;

use lock_so::{DelayedQueue, Error, Factory, Job, Lock, LockInfo, MajorityLock, Pending, RedLock, Settings};
use redis::sentinel::{SentinelClient, SentinelServerType};
use redis::{Client, Cmd};
use serde_json::{json, Value};

/// The answer to a request: fields, or a code and a text.
pub type Answer = Result<Value, (&'static str, String)>;

/// How long `quit` waits for clean-up that is still in progress.
pub const SETTLING: Duration = Duration::from_secs(5);

/// How long `close` may take if the request does not say it.
pub const CLOSING: Duration = Duration::from_secs(2);

pub fn say(line: &Value) {
    let mut out = std::io::stdout().lock();
    // The driver may have ended; that is no error here.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

pub fn answer(id: u64, answer: Answer) {
    match answer {
        Ok(mut fields) => {
            fields["id"] = json!(id);
            fields["ok"] = json!(true);
            say(&fields);
        }
        Err((code, text)) => say(&json!({"id": id, "error": code, "text": text})),
    }
}

pub fn code(error: Error) -> (&'static str, String) {
    let code = match &error {
        Error::InvalidOption { .. } => "bad_option",
        Error::NotAcquired(_) => "not_acquired",
        Error::NotHeld { .. } => "not_held",
        Error::Deadlock { .. } => "deadlock",
        Error::NoReplicas { .. } => "no_replicas",
        Error::ModuleMissing { .. } => "module_missing",
        Error::Refused { .. } => "refused",
        Error::Cancelled { .. } => "cancelled",
        Error::Connection { .. } => "connection",
        Error::Closed { .. } => "closed",
        _ => "other",
    };
    (code, error.to_string())
}

pub fn library(error: redis::RedisError) -> (&'static str, String) {
    ("connection", error.to_string())
}

pub fn other(text: impl ToString) -> (&'static str, String) {
    ("other", text.to_string())
}

pub fn text<'a>(request: &'a Value, name: &str) -> &'a str {
    request[name].as_str().unwrap_or("main")
}

pub fn number(request: &Value, name: &str) -> u64 {
    request[name].as_u64().unwrap_or(0)
}

/// A time, of which a fraction of a millisecond can be requested.
pub fn millis(value: &Value) -> Option<Duration> {
    value.as_f64().and_then(|ms| Duration::try_from_secs_f64(ms / 1e3).ok())
}

/// The addresses in `to`.
pub fn urls(to: &Value) -> Vec<String> {
    let url = |port: &Value| format!("redis://127.0.0.1:{port}/");
    match &to["ports"] {
        Value::Array(ports) => ports.iter().map(url).collect(),
        _ => vec![url(&to["port"])],
    }
}

/// The settings of the locks for `connect`.
pub fn settings(request: &Value) -> Result<Settings, (&'static str, String)> {
    let to = &request["to"];
    let settings = match text(to, "kind") {
        "cluster" => Settings::cluster(urls(to)),
        "sentinel" => Settings::sentinel(urls(to), text(to, "master"), "redis://master/"),
        _ => Client::open(urls(to).remove(0)).map(|client| Settings::single(&client)),
    };
    let mut settings = settings.map_err(library)?;
    if let Some(max_block) = millis(&request["max_block_ms"]) {
        settings = settings.max_block(max_block).map_err(code)?;
    }
    match millis(&request["connect_timeout_ms"]) {
        Some(timeout) => settings.connect_timeout(timeout).map_err(code),
        None => Ok(settings),
    }
}

/// What Rust's types do not allow: negative times and numbers.
pub fn refuse_negative(request: &Value) -> Result<(), (&'static str, String)> {
    let fields = [
        ("wait must not be negative", &request["wait_ms"]),
        ("lease must be greater than 0", &request["lock"]["lease_ms"]),
        ("lease must be greater than 0", &request["lease_ms"]),
        ("count must not be negative", &request["count"]),
        ("by must be at least 1", &request["by"]),
        ("delay must not be negative", &request["delay_ms"]),
        ("timeout must be greater than 0", &request["timeout_ms"]),
        ("max_tries must be at least 1", &request["max_tries"]),
        ("backoff must not be negative", &request["backoff_ms"]),
    ];
    for (text, value) in fields {
        if let Some(number) = value.as_i64().filter(|number| *number < 0) {
            return Err(("bad_option", format!("{text}, not {number}")));
        }
    }
    Ok(())
}

/// The answer to `info`.
pub fn informed(info: &LockInfo) -> Value {
    let holder = |of: &lock_so::Holder| json!({"key": of.key, "owner": of.owner, "mode": of.mode, "holds": of.holds});
    let waiter = |of: &lock_so::Waiter| json!({"key": of.key, "owner": of.owner, "mode": of.mode, "fair": of.fair});
    json!({
        "holders": info.holders.iter().map(holder).collect::<Vec<_>>(),
        "waiting": info.waiting,
        "waiters": info.waiters.iter().map(waiter).collect::<Vec<_>>(),
    })
}

/// The queue of a request.
pub fn queue<C>(locks: &Factory<C>, request: &Value) -> DelayedQueue<C> {
    let mut queue = locks.delayed_queue(text(request, "queue"));
    if let Some(timeout) = millis(&request["timeout_ms"]) {
        queue = queue.timeout(timeout);
    }
    if let Some(max_tries) = request["max_tries"].as_u64() {
        queue = queue.max_tries(max_tries as u32);
    }
    match millis(&request["backoff_ms"]) {
        Some(backoff) => queue.backoff(backoff),
        None => queue,
    }
}

/// The answer to `delay_list`.
pub fn pending(elements: Vec<Pending>) -> Value {
    let one = |of: &Pending| json!({"item": of.id, "value": String::from_utf8_lossy(&of.value)});
    json!({"items": elements.iter().map(one).collect::<Vec<_>>()})
}

/// The handler of a consumer has received a job.
pub fn say_job(request: &Value, job: &Job) {
    let value = String::from_utf8_lossy(&job.value);
    say(&json!({"event": "job", "id": request["id"], "value": value, "tries": job.tries}));
}

/// Whether the job's value is in this list of the request.
pub fn is_in(request: &Value, list: &str, job: &Job) -> bool {
    let values = request[list].as_array().into_iter().flatten();
    values.filter_map(Value::as_str).any(|value| value.as_bytes() == job.value)
}

/// The command of a request.
pub fn command(request: &Value) -> Cmd {
    let mut command = Cmd::new();
    for word in request["command"].as_array().into_iter().flatten() {
        command.arg(word.as_str().map_or_else(|| word.to_string(), str::to_string));
    }
    command
}

/// A reply of the server: a text, an integer or null.
pub fn reply(reply: &redis::Value) -> Value {
    match reply {
        redis::Value::Nil => Value::Null,
        redis::Value::Int(number) => json!(number),
        other => json!(redis::from_redis_value_ref::<String>(other).unwrap_or_else(|_| format!("{other:?}"))),
    }
}

/// A request whose lock has keys of its own, as each task of a crowd has.
pub fn with_own_keys(request: &Value, number: u64) -> Value {
    let mut request = request.clone();
    if request["own"] != false {
        for key in request["lock"]["keys"].as_array_mut().into_iter().flatten() {
            *key = json!(format!("{}:{number}", key.as_str().unwrap_or_default()));
        }
    }
    request
}

/// The answer to a second release, which Rust's types do not allow.
pub fn released_before(lock: &impl std::fmt::Debug) -> String {
    let named = format!("{lock:?}");
    let named = named.strip_prefix("Lock(").and_then(|rest| rest.strip_suffix(')')).unwrap_or(&named);
    format!("{named} is not held: it was released before")
}

struct Stderr;

impl log::Log for Stderr {
    fn enabled(&self, _: &log::Metadata) -> bool {
        true
    }

    fn log(&self, record: &log::Record) {
        eprintln!("{}: {}", record.level(), record.args());
    }

    fn flush(&self) {}
}

/// Writes what the package logs to stderr.
pub fn log_to_stderr() {
    if log::set_logger(&Stderr).is_ok() {
        log::set_max_level(log::LevelFilter::Warn);
    }
}

pub fn sentinel(to: &Value) -> redis::RedisResult<SentinelClient> {
    SentinelClient::build(urls(to), text(to, "master").to_string(), None, SentinelServerType::Master)
}

/// The lock of a request.
pub fn lock<C>(locks: &Factory<C>, wanted: &Value) -> Lock<C> {
    let keys: Vec<&str> = wanted["keys"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut lock = match text(wanted, "kind") {
        "fair" => locks.fair(keys[0]),
        "read" => locks.read(keys[0]),
        "write" => locks.write(keys[0]),
        "multi" if wanted["modes"].is_array() => {
            let of = |mode: &str| -> Vec<&str> {
                let modes = wanted["modes"].as_array().into_iter().flatten();
                keys.iter().zip(modes).filter(|(_, is)| *is == mode).map(|(key, _)| *key).collect()
            };
            locks.multi_modes(&of("read"), &of("write"))
        }
        "multi" => locks.multi(keys.clone()),
        "semaphore" => locks.semaphore(keys[0], number(wanted, "limit") as u32),
        _ => locks.lock(keys[0]),
    };
    if let Some(permits) = wanted["permits"].as_u64() {
        lock = lock.permits(permits as u32);
    }
    if let Some(lease) = millis(&wanted["lease_ms"]) {
        lock = lock.lease(lease);
    }
    if let (Some(replicas), Some(time)) = (wanted["replicas"][0].as_u64(), millis(&wanted["replicas"][1])) {
        lock = lock.replicas(replicas as u32, time);
    }
    let is = |name: &str| wanted[name].as_bool();
    for (is_set, change) in [
        (is("session") == Some(true), Lock::session as fn(Lock<C>) -> Lock<C>),
        (is("fenced") == Some(true), Lock::fenced),
        (is("renew") == Some(false), Lock::no_renewal),
    ] {
        lock = if is_set { change(lock) } else { lock };
    }
    lock
}

/// What sends the event `lost`, if the request wants it.
pub fn lost_event(request: &Value) -> Option<impl Fn() + Send + Sync + 'static> {
    let fails = request["lock"]["watch"] == "raise";
    let event = json!({"event": "lost", "as": request["as"]});
    (fails || request["lock"]["watch"] == true).then_some(move || {
        say(&event);
        assert!(!fails, "the callback fails");
    })
}

/// The lock of more than half of these servers.
pub fn majority<C>(redlock: &RedLock<C>, wanted: &Value) -> MajorityLock<C> {
    let mut lock = redlock.lock(wanted["keys"][0].as_str().unwrap_or_default());
    if let Some(lease) = millis(&wanted["lease_ms"]) {
        lock = lock.lease(lease);
    }
    if wanted["renew"] == false {
        lock = lock.no_renewal();
    }
    lock
}

/// The members of a combined lock, each like a request of its own.
pub fn members(request: &Value) -> impl Iterator<Item = &Value> {
    request["lock"]["members"].as_array().into_iter().flatten()
}

pub fn is_read(request: &Value) -> bool {
    request["lock"]["kind"] == "read"
}

/// Random numbers that are the same for the same seed: xorshift.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// From 0 to less than `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}
