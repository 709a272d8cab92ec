//! Threads that wait for the server's notification of a loss. For a session, this also maintains the connection.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use redis::{Cmd, RedisResult, Value};

use super::pool::Pooled;
use super::Core;
use crate::hold::{Hold, Watched};
use crate::util::{left, Pause, Sent, SHORT};

/// Watches all keys of a hold, as long as it is held. `pooled` is a session's connection.
pub(super) fn start(core: &Arc<Core>, hold: &Arc<Hold>, mut pooled: Option<Pooled>) {
    let keys = if hold.spec.watch { hold.spec.keys.len() } else { 1 };
    for key in 0..keys {
        let watch = Watch { core: core.clone(), hold: hold.clone(), key, pooled: pooled.take(), is_refused: false };
        if thread::Builder::new().spawn(move || watch.run()).is_err() && hold.spec.session {
            hold.unbound();
        }
    }
}

struct Watch {
    core: Arc<Core>,
    hold: Arc<Hold>,
    key: usize,
    pooled: Option<Pooled>,
    is_refused: bool,
}

impl Watch {
    fn run(mut self) {
        let mut pause = Pause::new();
        while self.hold.is_held() {
            let (since, (block, listen)) = (Instant::now(), self.hold.watch_times(self.core.shared.max_block));
            let reply = self.once(block, listen);
            match self.hold.watched(reply, since, block) {
                Watched::Still => pause = Pause::new(),
                Watched::Again => {
                    self.pooled = None;
                    thread::sleep(pause.next(None).unwrap_or_default());
                }
                Watched::Refused => {
                    self.is_refused = true;
                    self.hold.refused().for_each(thread::sleep);
                }
                Watched::Ended(is_free) => {
                    self.pooled.take().filter(|_| is_free).into_iter().for_each(Pooled::keep);
                    break;
                }
            }
        }
    }

    /// One `LOCK.WATCH`, on a new connection if the last one is gone.
    fn once(&mut self, block: Duration, listen: Duration) -> RedisResult<Value> {
        let hold = self.hold.clone();
        let is_binding = hold.spec.session && self.key == 0;
        if is_binding && (self.pooled.is_none() || std::mem::take(&mut self.is_refused)) {
            self.bind()?;
        }
        let command = hold.spec.watch(self.key, &hold.owner, block.as_millis() as u64);
        match &mut self.pooled {
            Some(pooled) => pooled.query(&command, Instant::now() + listen),
            None => self.call(self.key, command, listen),
        }
    }

    /// Binds all keys of a session to the connection, or to a new one; or renews them there.
    fn bind(&mut self) -> RedisResult<()> {
        let (sent, hold) = (Instant::now(), self.hold.clone());
        for command in hold.spec.renew(&hold.owner) {
            let by = hold.short() + hold.spec.replicas_time();
            match &mut self.pooled {
                Some(pooled) => pooled.query(&command, by)?,
                None => self.call(0, command, left(by))?,
            };
        }
        hold.confirmed(sent);
        Ok(())
    }

    fn call(&mut self, key: usize, command: Cmd, listen: Duration) -> RedisResult<Value> {
        let sending = || Ok(Sent { command: command.clone(), by: Instant::now() + listen, is_long: true });
        let answer = self.core.pool.call(&self.hold.spec.keys[key], Instant::now() + SHORT, false, &sending);
        self.pooled = answer.pooled;
        answer.reply
    }
}
