//! Threads that wait for the server's notification of a loss. For a session, this also maintains the connection.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use redis::{RedisResult, Value};

use super::pool::Line;
use super::Core;
use crate::hold::{Hold, Watched};
use crate::util::{timed_out, Pause, SHORT};

/// Watches all keys of a hold, as long as it is held. `line` is a session's connection.
pub(super) fn start(core: &Arc<Core>, hold: &Arc<Hold>, mut line: Option<Line>) {
    let keys = if hold.spec.watch { hold.spec.keys.len() } else { 1 };
    for key in 0..keys {
        let watch = Watch { core: core.clone(), hold: hold.clone(), key, line: line.take() };
        thread::spawn(move || watch.run());
    }
}

struct Watch {
    core: Arc<Core>,
    hold: Arc<Hold>,
    key: usize,
    line: Option<Line>,
}

impl Watch {
    fn run(mut self) {
        let mut pause = Pause::new();
        while self.hold.is_held() {
            let (since, (block, listen)) = (Instant::now(), self.hold.watch_times(self.core.shared.max_block));
            let reply = self.once(block, listen);
            match self.hold.watched(reply, since, block) {
                Watched::Ended => break,
                Watched::Still => pause = Pause::new(),
                Watched::Again => {
                    self.line = None;
                    thread::sleep(pause.next(None).unwrap_or_default());
                }
            }
        }
        // The release has ended the watch, so the connection can be used again.
        self.line.take().into_iter().for_each(|line| self.core.pool.keep(line));
    }

    /// One `LOCK.WATCH`, on a new connection if the last one is gone.
    fn once(&mut self, block: Duration, listen: Duration) -> RedisResult<Value> {
        let hold = &self.hold;
        let command = hold.spec.watch(self.key, &hold.owner, block.as_millis() as u64);
        if self.line.is_none() && self.is_binding() {
            self.line = Some(self.bind()?);
        }
        match &mut self.line {
            Some(line) => line.ask(&command, listen),
            None => {
                let answer = self.core.pool.call(&hold.spec.keys[self.key], SHORT, true, &|| (command.clone(), listen));
                self.line = answer.line;
                answer.reply
            }
        }
    }

    fn is_binding(&self) -> bool {
        self.hold.spec.session && self.key == 0
    }

    /// Binds all keys of a session to another connection.
    fn bind(&self) -> RedisResult<Line> {
        let sent = Instant::now();
        let short = SHORT.min(self.hold.left()).max(Duration::from_millis(1));
        let mut line: Option<Line> = None;
        for command in self.hold.spec.renew(&self.hold.owner) {
            match &mut line {
                Some(line) => drop(line.ask(&command, short)?),
                None => {
                    let answer = self.core.pool.call(self.hold.spec.key(), short, false, &|| (command.clone(), short));
                    answer.reply?;
                    line = answer.line;
                }
            }
        }
        self.hold.confirmed(sent);
        line.ok_or_else(|| timed_out("there is no connection to bind to"))
    }
}
