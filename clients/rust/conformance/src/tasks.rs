//! The flavour `tokio`: a task for each request.

use std::collections::HashMap;
use std::process::exit;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lock_so::aio::{combine, Combined, Guard, Held, Lock, Locks, MajorityGuard, MajorityLock, RedLock};
use lock_so::Job;
use redis::aio::MultiplexedConnection;
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::{cmd, AsyncConnectionConfig, Client, Cmd, FromRedisValue, RedisResult};
use serde_json::{json, Value};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::{oneshot, Notify};
use tokio::task::{AbortHandle, JoinSet};

use crate::words::{
    answer, code, command, informed, is_in, is_read, library, lock, millis, number, other, pending, queue,
};
use crate::words::{lost_event, majority, members, with_own_keys, Answer, Random, CLOSING, SETTLING};
use crate::words::{refuse_negative, released_before, reply, say, say_job, sentinel, settings, text, urls};

/// A connection as a user would have it.
enum Own {
    One(MultiplexedConnection),
    Cluster(Box<ClusterConnection>),
}

impl Own {
    async fn ask<T: FromRedisValue>(&mut self, command: &Cmd) -> RedisResult<T> {
        match self {
            Self::One(connection) => command.query_async(connection).await,
            Self::Cluster(connection) => command.query_async(&mut **connection).await,
        }
    }
}

/// What a request names.
#[derive(Clone)]
enum Wanted {
    One(Lock),
    All(Combined),
    Majority(MajorityLock),
}

/// What it acquires.
enum Acquired {
    Guard(Guard),
    Majority(MajorityGuard),
}

impl Wanted {
    async fn lock(&self) -> lock_so::Result<Acquired> {
        match self {
            Self::One(lock) => lock.lock().await.map(Acquired::Guard),
            Self::All(lock) => lock.lock().await.map(Acquired::Guard),
            Self::Majority(lock) => lock.lock().await.map(Acquired::Majority),
        }
    }

    async fn lock_for(&self, time: Duration) -> lock_so::Result<Acquired> {
        match self {
            Self::One(lock) if time.is_zero() => lock.try_lock().await.map(Acquired::Guard),
            Self::One(lock) => lock.lock_for(time).await.map(Acquired::Guard),
            Self::All(lock) if time.is_zero() => lock.try_lock().await.map(Acquired::Guard),
            Self::All(lock) => lock.lock_for(time).await.map(Acquired::Guard),
            Self::Majority(lock) if time.is_zero() => lock.try_lock().await.map(Acquired::Majority),
            Self::Majority(lock) => lock.lock_for(time).await.map(Acquired::Majority),
        }
    }

    fn watched(self, request: &Value) -> Self {
        let Some(event) = lost_event(request) else { return self };
        match self {
            Self::One(lock) => Self::One(lock.on_lost(event)),
            Self::All(lock) => Self::All(lock.on_lost(event)),
            Self::Majority(lock) => Self::Majority(lock.on_lost(event)),
        }
    }

    /// The text of a second release.
    fn released_before(&self) -> String {
        match self {
            Self::One(lock) => released_before(lock),
            Self::All(lock) => released_before(lock),
            Self::Majority(lock) => released_before(lock),
        }
    }
}

impl Acquired {
    /// The answer to `acquire`.
    fn fields(&self) -> Value {
        match self {
            Self::Guard(guard) => {
                let owners: Vec<&str> = guard.holds().iter().map(Held::owner).collect();
                json!({"owner": guard.owner(), "token": guard.token(), "owners": owners})
            }
            Self::Majority(guard) => json!({"owner": guard.owner(), "token": guard.token()}),
        }
    }

    fn is_lost(&self) -> bool {
        match self {
            Self::Guard(guard) => guard.is_lost(),
            Self::Majority(guard) => guard.is_lost(),
        }
    }

    async fn lost(&self) {
        match self {
            Self::Guard(guard) => guard.lost().await,
            Self::Majority(guard) => guard.lost().await,
        }
    }

    async fn renew(&self, lease: Option<Duration>) -> lock_so::Result<()> {
        match (self, lease) {
            (Self::Guard(guard), None) => guard.renew().await,
            (Self::Guard(guard), Some(lease)) => guard.renew_for(lease).await,
            (Self::Majority(guard), None) => guard.renew().await,
            (Self::Majority(guard), Some(lease)) => guard.renew_for(lease).await,
        }
    }

    async fn release(self) -> lock_so::Result<()> {
        match self {
            Self::Guard(guard) => guard.release().await,
            Self::Majority(guard) => guard.release().await,
        }
    }
}

struct User {
    /// The request that created it.
    request: Value,
    locks: Locks,
    /// The user's own connection, once it was used.
    own: tokio::sync::Mutex<Option<Own>>,
}

#[derive(Default)]
struct Runner {
    users: Mutex<HashMap<String, Arc<User>>>,
    guards: Mutex<HashMap<String, Arc<Acquired>>>,
    /// What a second release of each hold answers.
    released: Mutex<HashMap<String, String>>,
    waits: Mutex<HashMap<String, AbortHandle>>,
    bodies: Mutex<HashMap<u64, oneshot::Sender<()>>>,
}

#[tokio::main(worker_threads = 2)]
pub async fn run() {
    let runner = Arc::new(Runner::default());
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let Ok(request) = serde_json::from_str::<Value>(&line) else { break };
        let id = number(&request, "id");
        match text(&request, "do") {
            "quit" => runner.quit(Some(id)).await,
            "connect" => answer(id, runner.connect(&request).await),
            // Later requests may refer to it, so it is recorded before they are read.
            "acquire" | "latch_wait" | "consume" => runner.clone().begin_waiting(request),
            _ => {
                let body = runner.begin(&request);
                let runner = runner.clone();
                tokio::spawn(async move { answer(id, runner.act(&request, body).await) });
            }
        }
    }
    runner.quit(None).await;
}

impl Runner {
    fn begin(&self, request: &Value) -> Option<oneshot::Receiver<()>> {
        if request["until"] != true {
            return None;
        }
        let (leave, left) = oneshot::channel();
        self.bodies.lock().unwrap().insert(number(request, "id"), leave);
        Some(left)
    }

    async fn act(&self, request: &Value, body: Option<oneshot::Receiver<()>>) -> Answer {
        refuse_negative(request)?;
        match text(request, "do") {
            "release" => self.release(request).await,
            "close" => {
                self.user(request)?.locks.close(millis(&request["timeout_ms"]).unwrap_or(CLOSING)).await;
                Ok(json!({}))
            }
            "abandon" => {
                drop(self.guards.lock().unwrap().remove(text(request, "as")));
                Ok(json!({}))
            }
            "crowd" => self.crowd(request).await,
            "short_lived" => self.short_lived(request).await,
            "cancel" => {
                let wait = self.waits.lock().unwrap().remove(text(request, "as"));
                wait.into_iter().for_each(|wait| wait.abort());
                Ok(json!({}))
            }
            "lost" => Ok(json!({"lost": self.guard(request)?.is_lost()})),
            "within" => self.within(request, body).await,
            "leave" => {
                let leave = self.bodies.lock().unwrap().remove(&number(request, "of"));
                // A handler may have been dropped with its consumer.
                leave.map(|leave| leave.send(())).map(|_| json!({})).ok_or_else(|| other("no such body"))
            }
            "count" => self.count(request).await,
            "storm" => self.storm(request).await,
            "ping" => {
                let user = self.user(request)?;
                let mut own = user.own.lock().await;
                if own.is_none() {
                    *own = Some(connection(&user.request["to"]).await.map_err(library)?);
                }
                let own = own.as_mut().ok_or_else(|| other("no connection"))?;
                let pong: RedisResult<String> = own.ask(&cmd("PING")).await;
                pong.map(|_| json!({"pong": true})).map_err(library)
            }
            "locked" => {
                Ok(json!({"locked": lock(&self.user(request)?.locks, &request["lock"]).locked().await.map_err(code)?}))
            }
            "info" => {
                let info = lock(&self.user(request)?.locks, &request["lock"]).info().await;
                info.map_err(code).map(|info| informed(&info))
            }
            "force" => {
                Ok(json!({"forced": lock(&self.user(request)?.locks, &request["lock"]).force().await.map_err(code)?}))
            }
            "renew" => {
                let guard = self.guard(request)?;
                let renewed = guard.renew(millis(&request["lease_ms"])).await;
                renewed.map_err(code).map(|()| json!({}))
            }
            "guard" => {
                let Acquired::Guard(guard) = &*self.guard(request)? else { return Err(other("no command there")) };
                let guarded = guard.guard::<redis::Value>(&command(request)).await;
                guarded.map_err(code).map(|guarded| json!({"reply": reply(&guarded)}))
            }
            "latch_set" => {
                let latch = self.user(request)?.locks.latch(text(request, "key"));
                latch
                    .set(number(request, "count"), millis(&request["lease_ms"]))
                    .await
                    .map_err(code)
                    .map(|()| json!({}))
            }
            "latch_down" => {
                let latch = self.user(request)?.locks.latch(text(request, "key"));
                let left = match request["by"].as_u64() {
                    Some(by) => latch.count_down_by(by).await,
                    None => latch.count_down().await,
                };
                left.map_err(code).map(|left| json!({"left": left}))
            }
            "latch_count" => {
                let latch = self.user(request)?.locks.latch(text(request, "key"));
                latch.count().await.map_err(code).map(|count| json!({"count": count}))
            }
            "delay_push" => {
                let (queue, value) = (queue(&self.user(request)?.locks, request), text(request, "value"));
                let delay = millis(&request["delay_ms"]).unwrap_or_default();
                match request["item"].as_str() {
                    Some(item) => queue.push_as(item, value, delay).await.map(|()| item.to_string()),
                    None => queue.push(value, delay).await,
                }
                .map_err(code)
                .map(|item| json!({"item": item}))
            }
            "delay_cancel" => {
                let cancelled = queue(&self.user(request)?.locks, request).cancel(text(request, "item")).await;
                cancelled.map_err(code).map(|cancelled| json!({"cancelled": cancelled}))
            }
            "delay_list" => queue(&self.user(request)?.locks, request).list(None).await.map_err(code).map(pending),
            "handoff" => handoff(request).await,
            // Several futures of one task may run at the same time.
            "reenter" => Err(not_reentrant()),
            unknown => Err(other(format!("unknown request: {unknown}"))),
        }
    }

    async fn connect(&self, request: &Value) -> Answer {
        let locks = Locks::new(settings(request)?);
        let user = User { request: request.clone(), locks, own: tokio::sync::Mutex::default() };
        self.users.lock().unwrap().insert(text(request, "as").into(), Arc::new(user));
        Ok(json!({}))
    }

    async fn release(&self, request: &Value) -> Answer {
        let name = text(request, "as");
        let guard = self.guards.lock().unwrap().remove(name);
        if let Some(guard) = guard {
            let guard = Arc::into_inner(guard).ok_or_else(|| other("the hold is in use"))?;
            return guard.release().await.map_err(code).map(|()| json!({}));
        }
        Err(self.no_hold(request))
    }

    async fn crowd(&self, request: &Value) -> Answer {
        let user = self.user(request)?;
        let hold = millis(&request["hold_ms"]).unwrap_or_default();
        let mut tasks = JoinSet::new();
        for number in 0..number(request, "tasks") {
            let lock = lock(&user.locks, &with_own_keys(request, number)["lock"]);
            tasks.spawn(async move {
                let guard = lock.lock().await.map_err(code)?;
                tokio::time::sleep(hold).await;
                guard.release().await.map_err(code)
            });
        }
        let results = tasks.join_all().await;
        let done = results.iter().filter(|result| result.is_ok()).count();
        results.into_iter().collect::<Result<Vec<()>, _>>().map(|_| json!({"done": done}))
    }

    async fn short_lived(&self, request: &Value) -> Answer {
        let user = self.user(request)?;
        for _ in 0..number(request, "times") {
            let locks = Locks::new(settings(&user.request)?);
            let guard = lock(&locks, &request["lock"]).lock().await.map_err(code)?;
            guard.release().await.map_err(code)?;
            if request["close"] == true {
                locks.close(CLOSING).await;
            }
        }
        Ok(json!({}))
    }

    fn guard(&self, request: &Value) -> Result<Arc<Acquired>, (&'static str, String)> {
        let guard = self.guards.lock().unwrap().get(text(request, "as")).cloned();
        guard.ok_or_else(|| self.no_hold(request))
    }

    /// The error if there is no such hold, or none any more.
    fn no_hold(&self, request: &Value) -> (&'static str, String) {
        let released = self.released.lock().unwrap().get(text(request, "as")).cloned();
        released.map_or_else(|| other("no such hold"), |text| ("not_held", text))
    }

    /// The lock of a request, which may be of several lock factories.
    fn wanted(&self, request: &Value) -> Result<Wanted, (&'static str, String)> {
        let one = |of: &Value| Ok(lock(&self.user(of)?.locks, &of["lock"]));
        Ok(match text(&request["lock"], "kind") {
            "combine" => Wanted::All(combine(members(request).map(one).collect::<Result<Vec<_>, _>>()?)),
            "redlock" => {
                let servers = request["lock"]["on"].as_array().into_iter().flatten();
                let locks = servers.map(|on| Ok(self.user(&json!({"on": on}))?.locks.clone()));
                let redlock = RedLock::new(locks.collect::<Result<Vec<_>, (&'static str, String)>>()?).map_err(code)?;
                Wanted::Majority(majority(&redlock, &request["lock"]))
            }
            _ => Wanted::One(one(request)?),
        })
    }

    fn user(&self, request: &Value) -> Result<Arc<User>, (&'static str, String)> {
        self.users.lock().unwrap().get(text(request, "on")).cloned().ok_or_else(|| other("no such client"))
    }

    /// To cancel it, the waiting task is aborted, which drops its futures.
    fn begin_waiting(self: Arc<Self>, request: Value) {
        let (name, id) = (text(&request, "as").to_string(), number(&request, "id"));
        // Of the lock factories that there are now.
        let (runner, user) = (self.clone(), self.user(&request));
        let wanted = (request["do"] == "acquire").then(|| self.wanted(&request));
        let waiting = tokio::spawn(async move {
            refuse_negative(&request)?;
            match (wanted, text(&request, "do")) {
                (Some(lock), _) => runner.acquire(lock?.watched(&request), &request).await,
                (None, "consume") => runner.consume(&*user?, &request).await,
                (None, _) => latch_wait(&*user?, &request).await,
            }
        });
        self.waits.lock().unwrap().insert(name.clone(), waiting.abort_handle());
        tokio::spawn(async move {
            let waited = waiting.await;
            self.waits.lock().unwrap().remove(&name);
            answer(id, waited.unwrap_or_else(|error| Err(("cancelled", error.to_string()))));
        });
    }

    async fn acquire(&self, lock: Wanted, request: &Value) -> Answer {
        if request["lock"]["reentrant"] == true {
            return Err(not_reentrant());
        }
        let guard = wait(&lock, &request["wait_ms"]).await?;
        let (name, fields) = (text(request, "as"), guard.fields());
        self.released.lock().unwrap().insert(name.into(), lock.released_before());
        self.guards.lock().unwrap().insert(name.into(), guard.into());
        Ok(fields)
    }

    async fn consume(&self, user: &User, request: &Value) -> Answer {
        let queue = queue(&user.locks, request);
        let jobs = AtomicU64::new(request["jobs"].as_u64().unwrap_or(u64::MAX));
        let done = Notify::new();
        let handler = |job: Job| {
            let (jobs, done) = (&jobs, &done);
            async move {
                let (leave, left) = oneshot::channel();
                let holds = is_in(request, "hold", &job);
                if holds {
                    self.bodies.lock().unwrap().insert(number(request, "id"), leave);
                }
                say_job(request, &job);
                if holds {
                    let _ = left.await;
                }
                if jobs.fetch_sub(1, Ordering::Relaxed) == 1 {
                    done.notify_one();
                }
                if is_in(request, "fail", &job) {
                    return Err("the handler fails");
                }
                Ok(())
            }
        };
        tokio::select! {
            ended = queue.consume(handler) => match ended {
                Err(error) => Err(code(error)),
                Ok(never) => match never {},
            },
            // The last job ends in a task of its own.
            () = done.notified() => {
                user.locks.settle(SETTLING).await;
                Ok(json!({}))
            }
        }
    }

    async fn within(&self, request: &Value, body: Option<oneshot::Receiver<()>>) -> Answer {
        let guard = wait(&self.wanted(request)?.watched(request), &request["wait_ms"]).await?;
        say(&json!({"event": "inside", "id": request["id"]}));
        if request["stop"] == true {
            guard.lost().await;
        }
        if let Some(left) = body {
            left.await.map_err(other)?;
        }
        if request["raise"] == true {
            // Like `?` in a function that owns the guard: the guard is dropped.
            return Err(("body", "the body has failed".into()));
        }
        guard.release().await.map_err(code).map(|()| json!({}))
    }

    async fn count(&self, request: &Value) -> Answer {
        let (user, lock) = (self.user(request)?, self.wanted(request)?);
        let mut workers = JoinSet::new();
        for _ in 0..number(request, "workers") {
            let (lock, user, request) = (lock.clone(), user.clone(), request.clone());
            workers.spawn(async move {
                let mut own = connection(&user.request["to"]).await.map_err(library)?;
                for _ in 0..number(&request, "times") {
                    let guard = lock.lock().await.map_err(code)?;
                    increment(&mut own, text(&request, "counter"), is_read(&request)).await.map_err(library)?;
                    guard.release().await.map_err(code)?;
                }
                Ok(number(&request, "times"))
            });
        }
        let done: Result<Vec<u64>, _> = workers.join_all().await.into_iter().collect();
        Ok(json!({"done": done?.iter().sum::<u64>()}))
    }

    async fn storm(&self, request: &Value) -> Answer {
        let lock = self.wanted(request)?;
        let mut random = Random::new(number(request, "seed"));
        let (mut acquired, mut given_up) = (0, 0);
        for _ in 0..number(request, "times") {
            let result = if request["kind"] == "cancel" {
                let time = Duration::from_micros(random.below(3000));
                tokio::select! {
                    result = lock.lock() => Some(result),
                    () = exactly(time) => None,
                }
            } else {
                Some(lock.lock_for(Duration::from_millis(1 + random.below(3))).await)
            };
            match result {
                Some(Ok(guard)) => {
                    guard.release().await.map_err(code)?;
                    acquired += 1;
                }
                None | Some(Err(lock_so::Error::NotAcquired(_))) => given_up += 1,
                Some(Err(error)) => return Err(code(error)),
            }
        }
        Ok(json!({"acquired": acquired, "given_up": given_up}))
    }

    async fn quit(&self, id: Option<u64>) -> ! {
        self.guards.lock().unwrap().clear();
        let users: Vec<Arc<User>> = self.users.lock().unwrap().values().cloned().collect();
        for user in users {
            user.locks.settle(SETTLING).await;
        }
        id.into_iter().for_each(|id| answer(id, Ok(json!({}))));
        exit(0)
    }
}

async fn latch_wait(user: &User, request: &Value) -> Answer {
    let latch = user.locks.latch(text(request, "key"));
    let opened = match millis(&request["wait_ms"]) {
        Some(time) => latch.wait_for(time).await,
        None => latch.wait().await.map(|()| true),
    };
    opened.map_err(code).map(|opened| json!({"open": opened}))
}

fn not_reentrant() -> (&'static str, String) {
    ("bad_option", "reentrant: a lock of tasks cannot be".into())
}

async fn wait(lock: &Wanted, wait: &Value) -> Result<Acquired, (&'static str, String)> {
    match millis(wait) {
        None => lock.lock().await,
        Some(time) => lock.lock_for(time).await,
    }
    .map_err(code)
}

async fn connection(to: &Value) -> RedisResult<Own> {
    // The library's time-out for replies is off, so that the user's own BLPOP can block.
    let config = AsyncConnectionConfig::new().set_response_timeout(None);
    Ok(match text(to, "kind") {
        "cluster" => Own::Cluster(Box::new(ClusterClient::new(urls(to))?.get_async_connection().await?)),
        "sentinel" => Own::One(sentinel(to)?.get_async_connection_with_config(&config).await?),
        _ => {
            let client = Client::open(urls(to).remove(0))?;
            Own::One(client.get_multiplexed_async_connection_with_config(&config).await?)
        }
    })
}

/// Waits for a time with a precision of microseconds; tokio's timers count milliseconds, in which most locks are
/// granted.
async fn exactly(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        tokio::task::yield_now().await;
    }
}

/// Increments the counter in a way that is correct only under a lock.
async fn increment(own: &mut Own, counter: &str, only_read: bool) -> RedisResult<()> {
    let count: Option<u64> = own.ask(cmd("GET").arg(counter)).await?;
    if only_read {
        return Ok(());
    }
    own.ask(cmd("SET").arg(counter).arg(count.unwrap_or(0) + 1)).await
}

/// Hand-offs between two holders with a client each, alternating with RPUSH and BLPOP on a list.
async fn handoff(request: &Value) -> Answer {
    let user = || settings(request).map(Locks::new);
    let (a, b) = (lock(&user()?, &request["lock"]), lock(&user()?, &request["lock"]));
    let list = format!("{}:list", request["lock"]["keys"][0].as_str().unwrap_or_default());
    let mut own = Vec::new();
    for _ in 0..3 {
        own.push(connection(&request["to"]).await.map_err(library)?);
    }
    let (mut look, mut push, mut pop) = (own.remove(0), own.remove(0), own.remove(0));
    let (mut lock_us, mut blpop_us) = (Vec::new(), Vec::new());
    for _ in 0..number(request, "rounds") {
        let guard = a.lock().await.map_err(code)?;
        let b = b.clone();
        let waits = tokio::spawn(async move { b.lock().await.map(|guard| (Instant::now(), guard)) });
        blocked(&mut look).await.map_err(library)?;
        let start = Instant::now();
        guard.release().await.map_err(code)?;
        let (end, guard) = waits.await.map_err(other)?.map_err(code)?;
        guard.release().await.map_err(code)?;
        lock_us.push((end - start).as_micros() as u64);

        let blpop = cmd("BLPOP").arg(&list).arg(0).to_owned();
        let waits = tokio::spawn(async move {
            let popped = pop.ask::<(String, String)>(&blpop).await;
            (Instant::now(), popped, pop)
        });
        blocked(&mut look).await.map_err(library)?;
        let start = Instant::now();
        push.ask::<()>(cmd("RPUSH").arg(&list).arg("x")).await.map_err(library)?;
        let (end, popped, connection) = waits.await.map_err(other)?;
        popped.map_err(library)?;
        pop = connection;
        blpop_us.push((end - start).as_micros() as u64);
    }
    Ok(json!({"lock_us": lock_us, "blpop_us": blpop_us}))
}

/// Waits until a client is blocked on the server.
async fn blocked(look: &mut Own) -> RedisResult<()> {
    loop {
        let info: String = look.ask(cmd("INFO").arg("clients")).await?;
        if !info.contains("blocked_clients:0") {
            return Ok(());
        }
    }
}
