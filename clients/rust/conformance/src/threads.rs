//! The flavour `sync`: a thread for each request.

use std::collections::HashMap;
use std::io::BufRead;
use std::process::exit;
use std::sync::{mpsc, Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use lock_so::sync::{combine, Cancel, Combined, Guard, Held, Lock, Locks, MajorityGuard, MajorityLock, RedLock};
use redis::cluster::{ClusterClient, ClusterConnection};
use redis::{cmd, Client, Cmd, Connection, FromRedisValue, RedisResult};
use serde_json::{json, Value};

use crate::words::{
    answer, code, command, informed, is_in, is_read, library, lock, millis, number, other, pending, queue,
};
use crate::words::{lost_event, majority, members, with_own_keys, Answer, Random, CLOSING, SETTLING};
use crate::words::{refuse_negative, released_before, reply, say, say_job, sentinel, settings, text, urls};

/// A connection as a user would have it.
enum Own {
    One(Box<Connection>),
    Cluster(Box<ClusterConnection>),
}

impl Own {
    fn ask<T: FromRedisValue>(&mut self, command: &Cmd) -> RedisResult<T> {
        match self {
            Self::One(connection) => command.query(connection),
            Self::Cluster(connection) => command.query(connection),
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
    fn lock(&self) -> lock_so::Result<Acquired> {
        match self {
            Self::One(lock) => lock.lock().map(Acquired::Guard),
            Self::All(lock) => lock.lock().map(Acquired::Guard),
            Self::Majority(lock) => lock.lock().map(Acquired::Majority),
        }
    }

    fn lock_for(&self, time: Duration) -> lock_so::Result<Acquired> {
        match self {
            Self::One(lock) if time.is_zero() => lock.try_lock().map(Acquired::Guard),
            Self::One(lock) => lock.lock_for(time).map(Acquired::Guard),
            Self::All(lock) if time.is_zero() => lock.try_lock().map(Acquired::Guard),
            Self::All(lock) => lock.lock_for(time).map(Acquired::Guard),
            Self::Majority(lock) if time.is_zero() => lock.try_lock().map(Acquired::Majority),
            Self::Majority(lock) => lock.lock_for(time).map(Acquired::Majority),
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

    fn cancelled_by(self, cancel: &Cancel) -> Self {
        match self {
            Self::One(lock) => Self::One(lock.cancelled_by(cancel)),
            Self::All(lock) => Self::All(lock.cancelled_by(cancel)),
            Self::Majority(lock) => Self::Majority(lock.cancelled_by(cancel)),
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

    fn owner(&self) -> &str {
        match self {
            Self::Guard(guard) => guard.owner(),
            Self::Majority(guard) => guard.owner(),
        }
    }

    fn is_lost(&self) -> bool {
        match self {
            Self::Guard(guard) => guard.is_lost(),
            Self::Majority(guard) => guard.is_lost(),
        }
    }

    fn renew(&self, lease: Option<Duration>) -> lock_so::Result<()> {
        match (self, lease) {
            (Self::Guard(guard), None) => guard.renew(),
            (Self::Guard(guard), Some(lease)) => guard.renew_for(lease),
            (Self::Majority(guard), None) => guard.renew(),
            (Self::Majority(guard), Some(lease)) => guard.renew_for(lease),
        }
    }

    fn release(self) -> lock_so::Result<()> {
        match self {
            Self::Guard(guard) => guard.release(),
            Self::Majority(guard) => guard.release(),
        }
    }
}

struct User {
    /// The request that created it.
    request: Value,
    locks: Locks,
    /// The user's own connection, once it was used.
    own: Mutex<Option<Own>>,
}

#[derive(Default)]
struct Runner {
    users: Mutex<HashMap<String, Arc<User>>>,
    guards: Mutex<HashMap<String, Arc<Acquired>>>,
    /// What a second release of each hold answers.
    released: Mutex<HashMap<String, String>>,
    waits: Mutex<HashMap<String, Cancel>>,
    bodies: Mutex<HashMap<u64, mpsc::Sender<()>>>,
}

pub fn run() {
    let runner = Arc::new(Runner::default());
    for line in std::io::stdin().lock().lines() {
        let Ok(request) = line.and_then(|line| serde_json::from_str::<Value>(&line).map_err(Into::into)) else { break };
        if request["do"] == "quit" {
            runner.quit(Some(number(&request, "id")));
        }
        // Later requests may refer to it, so it is recorded before they are read.
        let body = runner.begin(&request);
        let runner = runner.clone();
        if request["do"] == "connect" {
            answer(number(&request, "id"), runner.connect(&request));
        } else {
            thread::spawn(move || answer(number(&request, "id"), runner.act(&request, body)));
        }
    }
    runner.quit(None);
}

impl Runner {
    fn begin(&self, request: &Value) -> Option<mpsc::Receiver<()>> {
        if ["acquire", "latch_wait", "consume"].contains(&text(request, "do")) {
            self.waits.lock().unwrap().insert(text(request, "as").into(), Cancel::new());
        }
        if request["until"] != true && request["do"] != "reenter" {
            return None;
        }
        let (leave, left) = mpsc::channel();
        self.bodies.lock().unwrap().insert(number(request, "id"), leave);
        Some(left)
    }

    fn act(&self, request: &Value, body: Option<mpsc::Receiver<()>>) -> Answer {
        refuse_negative(request)?;
        match text(request, "do") {
            "acquire" => self.acquire(request),
            "release" => self.release(request),
            "close" => {
                self.user(request)?.locks.close(millis(&request["timeout_ms"]).unwrap_or(CLOSING));
                Ok(json!({}))
            }
            "abandon" => {
                drop(self.guards.lock().unwrap().remove(text(request, "as")));
                Ok(json!({}))
            }
            "crowd" => self.crowd(request),
            "short_lived" => self.short_lived(request),
            "cancel" => {
                let wait = self.waits.lock().unwrap().get(text(request, "as")).cloned();
                wait.into_iter().for_each(|wait| wait.cancel());
                Ok(json!({}))
            }
            "lost" => Ok(json!({"lost": self.guard(request)?.is_lost()})),
            "within" => self.within(request, body),
            "leave" => {
                let leave = self.bodies.lock().unwrap().remove(&number(request, "of"));
                // A handler may have been dropped with its consumer.
                leave.map(|leave| leave.send(())).map(|_| json!({})).ok_or_else(|| other("no such body"))
            }
            "count" => self.count(request),
            "storm" => self.storm(request),
            "ping" => {
                let user = self.user(request)?;
                let mut own = user.own.lock().unwrap();
                if own.is_none() {
                    *own = Some(connection(&user.request["to"]).map_err(library)?);
                }
                let pong: Option<RedisResult<String>> = own.as_mut().map(|own| own.ask(&cmd("PING")));
                pong.ok_or_else(|| other("no connection"))?.map(|_| json!({"pong": true})).map_err(library)
            }
            "locked" => {
                Ok(json!({"locked": lock(&self.user(request)?.locks, &request["lock"]).locked().map_err(code)?}))
            }
            "info" => {
                let info = lock(&self.user(request)?.locks, &request["lock"]).info();
                info.map_err(code).map(|info| informed(&info))
            }
            "force" => Ok(json!({"forced": lock(&self.user(request)?.locks, &request["lock"]).force().map_err(code)?})),
            "renew" => {
                let guard = self.guard(request)?;
                let renewed = guard.renew(millis(&request["lease_ms"]));
                renewed.map_err(code).map(|()| json!({}))
            }
            "guard" => {
                let Acquired::Guard(guard) = &*self.guard(request)? else { return Err(other("no command there")) };
                let guarded = guard.guard::<redis::Value>(&command(request));
                guarded.map_err(code).map(|guarded| json!({"reply": reply(&guarded)}))
            }
            "latch_wait" => self.latch_wait(request),
            "consume" => self.consume(request),
            "reenter" => self.reenter(request, body),
            "latch_set" => {
                let latch = self.user(request)?.locks.latch(text(request, "key"));
                latch.set(number(request, "count"), millis(&request["lease_ms"])).map_err(code).map(|()| json!({}))
            }
            "latch_down" => {
                let latch = self.user(request)?.locks.latch(text(request, "key"));
                let left = match request["by"].as_u64() {
                    Some(by) => latch.count_down_by(by),
                    None => latch.count_down(),
                };
                left.map_err(code).map(|left| json!({"left": left}))
            }
            "latch_count" => {
                let latch = self.user(request)?.locks.latch(text(request, "key"));
                latch.count().map_err(code).map(|count| json!({"count": count}))
            }
            "delay_push" => {
                let (queue, value) = (queue(&self.user(request)?.locks, request), text(request, "value"));
                let delay = millis(&request["delay_ms"]).unwrap_or_default();
                match request["item"].as_str() {
                    Some(item) => queue.push_as(item, value, delay).map(|()| item.to_string()),
                    None => queue.push(value, delay),
                }
                .map_err(code)
                .map(|item| json!({"item": item}))
            }
            "delay_cancel" => {
                let cancelled = queue(&self.user(request)?.locks, request).cancel(text(request, "item"));
                cancelled.map_err(code).map(|cancelled| json!({"cancelled": cancelled}))
            }
            "delay_list" => queue(&self.user(request)?.locks, request).list(None).map_err(code).map(pending),
            "handoff" => handoff(request),
            unknown => Err(other(format!("unknown request: {unknown}"))),
        }
    }

    fn connect(&self, request: &Value) -> Answer {
        let locks = Locks::new(settings(request)?);
        let user = User { request: request.clone(), locks, own: Mutex::default() };
        self.users.lock().unwrap().insert(text(request, "as").into(), Arc::new(user));
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
        let one = |of: &Value| Ok(entered(lock(&self.user(of)?.locks, &of["lock"]), of));
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

    fn acquire(&self, request: &Value) -> Answer {
        let (name, cancel) = (text(request, "as"), self.cancel_of(request));
        let lock = self.wanted(request)?.watched(request).cancelled_by(&cancel);
        let result = wait(&lock, &request["wait_ms"]);
        self.waits.lock().unwrap().remove(name);
        let guard = result?;
        let fields = guard.fields();
        self.released.lock().unwrap().insert(name.into(), lock.released_before());
        self.guards.lock().unwrap().insert(name.into(), guard.into());
        Ok(fields)
    }

    fn cancel_of(&self, request: &Value) -> Cancel {
        self.waits.lock().unwrap().get(text(request, "as")).cloned().unwrap_or_default()
    }

    fn latch_wait(&self, request: &Value) -> Answer {
        let latch = self.user(request)?.locks.latch(text(request, "key")).cancelled_by(&self.cancel_of(request));
        let opened = match millis(&request["wait_ms"]) {
            Some(time) => latch.wait_for(time),
            None => latch.wait().map(|()| true),
        };
        opened.map_err(code).map(|opened| json!({"open": opened}))
    }

    fn consume(&self, request: &Value) -> Answer {
        let cancel = self.cancel_of(request);
        let queue = queue(&self.user(request)?.locks, request).cancelled_by(&cancel);
        let mut jobs = request["jobs"].as_u64();
        let ended = queue.consume(|job| {
            let (leave, left) = mpsc::channel();
            let holds = is_in(request, "hold", job);
            if holds {
                self.bodies.lock().unwrap().insert(number(request, "id"), leave);
            }
            say_job(request, job);
            if holds {
                let _ = left.recv();
            }
            jobs = jobs.map(|jobs| jobs - 1);
            if jobs == Some(0) {
                cancel.cancel();
            }
            if is_in(request, "fail", job) {
                Err("the handler fails")
            } else {
                Ok(())
            }
        });
        match ended {
            Err(lock_so::Error::Cancelled { .. }) if jobs == Some(0) => Ok(json!({})),
            Err(error) => Err(code(error)),
            Ok(never) => match never {},
        }
    }

    fn release(&self, request: &Value) -> Answer {
        let name = text(request, "as");
        if let Some(guard) = self.guards.lock().unwrap().remove(name) {
            let guard = Arc::into_inner(guard).ok_or_else(|| other("the hold is in use"))?;
            return guard.release().map_err(code).map(|()| json!({}));
        }
        Err(self.no_hold(request))
    }

    fn crowd(&self, request: &Value) -> Answer {
        let user = self.user(request)?;
        let hold = millis(&request["hold_ms"]).unwrap_or_default();
        let results: Vec<_> = thread::scope(|scope| {
            let task = |number| {
                let (lock, hold) = (lock(&user.locks, &with_own_keys(request, number)["lock"]), &hold);
                scope.spawn(move || {
                    let guard = lock.lock().map_err(code)?;
                    thread::sleep(*hold);
                    guard.release().map_err(code)
                })
            };
            let tasks: Vec<_> = (0..number(request, "tasks")).map(task).collect();
            tasks.into_iter().map(|task| task.join().unwrap()).collect()
        });
        let done = results.iter().filter(|result| result.is_ok()).count();
        results.into_iter().collect::<Result<Vec<()>, _>>().map(|_| json!({"done": done}))
    }

    fn short_lived(&self, request: &Value) -> Answer {
        let user = self.user(request)?;
        for _ in 0..number(request, "times") {
            let locks = Locks::new(settings(&user.request)?);
            lock(&locks, &request["lock"]).lock().map_err(code)?.release().map_err(code)?;
            if request["close"] == true {
                locks.close(CLOSING);
            }
        }
        Ok(json!({}))
    }

    fn within(&self, request: &Value, body: Option<mpsc::Receiver<()>>) -> Answer {
        let guard = wait(&self.wanted(request)?.watched(request), &request["wait_ms"])?;
        say(&json!({"event": "inside", "id": request["id"]}));
        if let Some(left) = body {
            left.recv().map_err(other)?;
        }
        if request["raise"] == true {
            // Like `?` in a function that owns the guard: the guard is dropped.
            return Err(("body", "the body has failed".into()));
        }
        guard.release().map_err(code).map(|()| json!({}))
    }

    fn reenter(&self, request: &Value, body: Option<mpsc::Receiver<()>>) -> Answer {
        let lock = self.wanted(request)?.watched(request);
        let mut guards = Vec::new();
        for _ in 0..number(request, "times") {
            guards.push(wait(&lock, &request["wait_ms"])?);
        }
        let owners: Vec<String> = guards.iter().map(|guard| guard.owner().into()).collect();
        say(&json!({"event": "inside", "id": request["id"]}));
        if let Some(left) = body {
            left.recv().map_err(other)?;
        }
        while let Some(guard) = guards.pop() {
            guard.release().map_err(code)?;
        }
        Ok(json!({"owners": owners}))
    }

    fn count(&self, request: &Value) -> Answer {
        let (user, lock) = (self.user(request)?, self.wanted(request)?);
        let work = || -> Result<u64, (&'static str, String)> {
            let mut own = connection(&user.request["to"]).map_err(library)?;
            for _ in 0..number(request, "times") {
                let guard = lock.lock().map_err(code)?;
                increment(&mut own, text(request, "counter"), is_read(request)).map_err(library)?;
                guard.release().map_err(code)?;
            }
            Ok(number(request, "times"))
        };
        let done: Result<Vec<u64>, _> = thread::scope(|scope| {
            let workers: Vec<_> = (0..number(request, "workers")).map(|_| scope.spawn(work)).collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).collect()
        });
        Ok(json!({"done": done?.iter().sum::<u64>()}))
    }

    fn storm(&self, request: &Value) -> Answer {
        let lock = self.wanted(request)?;
        let mut random = Random::new(number(request, "seed"));
        let (mut acquired, mut given_up) = (0, 0);
        for _ in 0..number(request, "times") {
            let result = if request["kind"] == "cancel" {
                let cancel = Cancel::new();
                let (lock, time) = (lock.clone().cancelled_by(&cancel), Duration::from_micros(random.below(3000)));
                thread::spawn(move || {
                    thread::sleep(time);
                    cancel.cancel();
                });
                lock.lock()
            } else {
                lock.lock_for(Duration::from_millis(1 + random.below(3)))
            };
            match result {
                Ok(guard) => {
                    guard.release().map_err(code)?;
                    acquired += 1;
                }
                Err(lock_so::Error::NotAcquired(_) | lock_so::Error::Cancelled { .. }) => given_up += 1,
                Err(error) => return Err(code(error)),
            }
        }
        Ok(json!({"acquired": acquired, "given_up": given_up}))
    }

    fn quit(&self, id: Option<u64>) -> ! {
        self.guards.lock().unwrap().clear();
        for user in self.users.lock().unwrap().values() {
            user.locks.settle(SETTLING);
        }
        id.into_iter().for_each(|id| answer(id, Ok(json!({}))));
        exit(0)
    }
}

/// The lock, reentrant if the request says so.
fn entered(lock: Lock, request: &Value) -> Lock {
    if request["lock"]["reentrant"] == true {
        lock.reentrant()
    } else {
        lock
    }
}

fn wait(lock: &Wanted, wait: &Value) -> Result<Acquired, (&'static str, String)> {
    match millis(wait) {
        None => lock.lock(),
        Some(time) => lock.lock_for(time),
    }
    .map_err(code)
}

fn connection(to: &Value) -> RedisResult<Own> {
    Ok(match text(to, "kind") {
        "cluster" => Own::Cluster(Box::new(ClusterClient::new(urls(to))?.get_connection()?)),
        "sentinel" => Own::One(Box::new(sentinel(to)?.get_connection()?)),
        _ => Own::One(Box::new(Client::open(urls(to).remove(0))?.get_connection()?)),
    })
}

/// Increments the counter in a way that is correct only under a lock.
fn increment(own: &mut Own, counter: &str, only_read: bool) -> RedisResult<()> {
    let count: Option<u64> = own.ask(cmd("GET").arg(counter))?;
    if only_read {
        return Ok(());
    }
    own.ask(cmd("SET").arg(counter).arg(count.unwrap_or(0) + 1))
}

/// Hand-offs between two holders with a client each, alternating with RPUSH and BLPOP on a list.
fn handoff(request: &Value) -> Answer {
    let user = || settings(request).map(Locks::new);
    let (a, b) = (lock(&user()?, &request["lock"]), lock(&user()?, &request["lock"]));
    let key = request["lock"]["keys"][0].as_str().unwrap_or_default();
    let list = format!("{key}:list");
    let own = || connection(&request["to"]).map_err(library);
    let (mut push, mut pop, mut look) = (own()?, own()?, own()?);
    let (mut lock_us, mut blpop_us) = (Vec::new(), Vec::new());
    for _ in 0..number(request, "rounds") {
        let guard = a.lock().map_err(code)?;
        let took = thread::scope(|scope| {
            let waits = scope.spawn(|| b.lock().map(|guard| (Instant::now(), guard)));
            blocked(&mut look).map_err(library)?;
            let start = Instant::now();
            guard.release().map_err(code)?;
            let (end, guard) = waits.join().unwrap().map_err(code)?;
            guard.release().map_err(code)?;
            Ok(end - start)
        })?;
        lock_us.push(took.as_micros() as u64);
        let took = thread::scope(|scope| {
            let pop = &mut pop;
            let blpop = cmd("BLPOP").arg(&list).arg(0).to_owned();
            let waits = scope.spawn(move || pop.ask::<(String, String)>(&blpop).map(|_| Instant::now()));
            blocked(&mut look)?;
            let start = Instant::now();
            push.ask::<()>(cmd("RPUSH").arg(&list).arg("x"))?;
            Ok(waits.join().unwrap()? - start)
        });
        blpop_us.push(took.map_err(library)?.as_micros() as u64);
    }
    Ok(json!({"lock_us": lock_us, "blpop_us": blpop_us}))
}

/// Waits until a client is blocked on the server.
fn blocked(look: &mut Own) -> RedisResult<()> {
    loop {
        let info: String = look.ask(cmd("INFO").arg("clients"))?;
        if !info.contains("blocked_clients:0") {
            return Ok(());
        }
    }
}
