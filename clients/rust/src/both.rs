//! What is the same in both flavours, except that one of them is `async` and awaits. Each macro is used once in `sync`,
//! and once with `[async] [.await]` in `aio`, next to the types that it uses.

// One of the flavours may be off.
#![allow(unused_imports, unused_macros)]

/// The requests of a `Pool`, each on a `Pooled` connection.
macro_rules! pool {
    ([$($async:ident)?] [$($await:tt)*]) => {
        /// The result of a command.
        pub(crate) struct Answer {
            pub reply: RedisResult<Value>,
            /// The connection of the reply, if it can be used again.
            pub pooled: Option<Pooled>,
            /// Whether the command was sent, now or before, without a reply.
            pub unsure: bool,
        }

        impl Pooled {
            /// Keeps it for the next request.
            pub fn keep(self) {
                locked(&self.pool.idle).keep(&self.name, self.place.is_some(), self.connection);
            }
        }

        impl Pool {
            /// Sends a short command, which must have a reply at `by`.
            pub $($async)? fn short(self: &Arc<Self>, key: &[u8], command: &Cmd, by: Instant) -> Answer {
                self.brief(key, command, by, false)$($await)*
            }

            /// The same, but `once`: not again if it may have been executed.
            pub $($async)? fn brief(self: &Arc<Self>, key: &[u8], command: &Cmd, by: Instant, once: bool) -> Answer {
                let is_long = left(by) >= SHORT - SHORT / 10;
                let sending = || Ok(Sent { command: command.clone(), by, is_long, once, behind: None });
                let mut answer = self.send(key, by, [true, false], &sending)$($await)*;
                answer.pooled.take().into_iter().for_each(Pooled::keep);
                answer
            }

            /// Sends a command to the node of `key`. The connection must be open at `by`. `sending` is called for each attempt.
            /// A connection for short commands is open before, unless it only `tries`.
            pub $($async)? fn call(self: &Arc<Self>, key: &[u8], by: Instant, tries: bool, sending: Sending<'_>) -> Answer {
                self.send(key, by, [false, !tries], sending)$($await)*
            }

            /// How often a connection was lost.
            pub fn losses(&self) -> u64 {
                locked(&self.idle).losses
            }

            /// Closes the idle connections, and later those that are given back.
            pub fn close(&self) {
                locked(&self.idle).close();
            }

            $($async)? fn send(self: &Arc<Self>, key: &[u8], by: Instant, kind: [bool; 2], sending: Sending<'_>) -> Answer {
                let mut unsure = false;
                let mut target = match self.target(key, by)$($await)* {
                    Ok(target) => target,
                    Err(error) => return Answer { reply: Err(error), pooled: None, unsure },
                };
                let mut redirections = REDIRECTIONS;
                loop {
                    let (reply, pooled, is_long) = self.attempt(&target, by, kind, sending, &mut unsure)$($await)*;
                    let Err(error) = &reply else { return Answer { reply, pooled, unsure } };
                    match self.nodes.redirected(key, error).filter(|_| redirections > 0) {
                        Some(other) => {
                            pooled.into_iter().for_each(Pooled::keep);
                            (target, redirections) = (other, redirections - 1);
                        }
                        None if !again(error) => return Answer { reply, pooled, unsure },
                        None => {
                            if !is_slow(error, is_long) {
                                pooled.iter().for_each(|_| locked(&self.idle).forget(&target.name));
                                // A connection that was closed shows nothing about the address: the next one does.
                                if pooled.is_none() || !error.is_connection_dropped() {
                                    self.nodes.forget(&target.name);
                                }
                            }
                            return Answer { reply, pooled: None, unsure };
                        }
                    }
                }
            }

            $($async)? fn attempt(
                self: &Arc<Self>,
                target: &Target,
                by: Instant,
                [is_short, needs_short]: [bool; 2],
                sending: Sending<'_>,
                unsure: &mut bool,
            ) -> (RedisResult<Value>, Option<Pooled>, bool) {
                // Without a connection, the time to open one counts.
                let is_long = left(by) >= SHORT - SHORT / 10;
                loop {
                    if needs_short && !locked(&self.idle).is_ready(&target.name) {
                        match self.take(&target.name, true, by)$($await)* {
                            Err(error) => return (Err(error), None, is_long),
                            Ok((pooled, _)) => pooled.keep(),
                        }
                    }
                    let (mut pooled, is_stale) = match self.take(&target.name, is_short, by)$($await)* {
                        Err(error) => return (Err(error), None, is_long),
                        Ok(taken) => taken,
                    };
                    if is_stale == Some(true) && pooled.query(&cmd("PING"), checked_by(by))$($await)*.is_err() {
                        locked(&self.idle).forget(&target.name);
                        continue;
                    }
                    let asking = if target.asking { pooled.query(&cmd("ASKING"), by)$($await)*.map(drop) } else { Ok(()) };
                    let sent = match asking.and_then(|()| sending()) {
                        Err(error) => return (Err(error), Some(pooled), false),
                        Ok(sent) => sent,
                    };
                    let reply = pooled.query(&sent.command, sent.by)$($await)*;
                    *unsure |= reply.as_ref().is_err_and(is_lost);
                    if let Some(behind) = sent.behind.filter(|_| reply.as_ref().is_err_and(|error| error.is_timeout())) {
                        pooled.send_behind(&behind);
                        return (reply, None, sent.is_long);
                    }
                    // An idle connection that was closed shows nothing about the state of the server.
                    let is_closed = is_stale.is_some() && reply.as_ref().is_err_and(|error| error.is_connection_dropped());
                    if is_closed && !sent.once {
                        locked(&self.idle).forget(&target.name);
                        continue;
                    }
                    return (reply, Some(pooled), sent.is_long);
                }
            }

            /// An idle connection and whether it must be checked, or a new one.
            $($async)? fn take(self: &Arc<Self>, name: &Name, is_short: bool, by: Instant) -> RedisResult<(Pooled, Option<bool>)> {
                let place = if is_short { Some(self.place(name, true, by)$($await)*?) } else { None };
                let idle = locked(&self.idle).take(name, is_short);
                match idle {
                    Some((connection, is_stale)) => Ok((self.pooled(name, connection, place), Some(is_stale))),
                    None => self.connect(name, place, by)$($await)*.map(|pooled| (pooled, None)),
                }
            }
        }
    };
}
pub(crate) use pool;

/// The watches of a hold, its renewal, and the end of an acquisition without one.
macro_rules! watch {
    ([$($async:ident)?] [$($await:tt)*]) => {
        /// A task or thread that watches one key. `pooled` is a session's connection.
        pub(super) struct Watch {
            pub core: Arc<Core>,
            pub hold: Arc<Hold>,
            pub key: usize,
            pub pooled: Option<Pooled>,
            /// The one before: the server may not know that it is dead.
            pub last: Option<Pooled>,
            pub is_refused: bool,
        }

        impl Watch {
            pub $($async)? fn run(mut self) {
                let mut pause = Pause::new();
                while self.hold.is_held() {
                    let (since, (block, listen)) = (Instant::now(), self.hold.watch_times(self.core.shared.max_block));
                    let reply = self.once(block, listen)$($await)*;
                    match self.hold.watched(reply, since, block) {
                        Watched::Still => (pause, self.last) = (Pause::new(), None),
                        Watched::Again => {
                            self.last = self.pooled.take().or_else(|| self.last.take());
                            self.hold.expire(); // a session that was not bound again in time
                            sleep(pause.next(None).unwrap_or_default())$($await)*;
                        }
                        Watched::Refused => {
                            self.is_refused = true;
                            for step in self.hold.refused() {
                                sleep(step)$($await)*;
                            }
                        }
                        Watched::Ended(is_free) => {
                            self.pooled.take().filter(|_| is_free).into_iter().for_each(Pooled::keep);
                            break;
                        }
                    }
                }
            }

            /// One `LOCK.WATCH`, on a new connection if the last one is gone.
            $($async)? fn once(&mut self, block: Duration, listen: Duration) -> RedisResult<Value> {
                let hold = self.hold.clone();
                let is_binding = hold.spec.session && self.key == 0;
                if is_binding && (self.pooled.is_none() || std::mem::take(&mut self.is_refused)) {
                    self.bind()$($await)*?;
                }
                let command = hold.spec.watch(self.key, &hold.owner, block.as_millis() as u64);
                match &mut self.pooled {
                    Some(pooled) => pooled.query(&command, Instant::now() + listen)$($await)*,
                    None => self.call(self.key, command, listen)$($await)*,
                }
            }

            /// Binds all keys of a session to the connection, or to a new one; or renews them there.
            $($async)? fn bind(&mut self) -> RedisResult<()> {
                let (sent, hold) = (Instant::now(), self.hold.clone());
                let (command, by) = (hold.spec.bind(&hold.owner), hold.short() + hold.spec.replicas_time());
                match &mut self.pooled {
                    Some(pooled) => pooled.query(&command, by)$($await)*?,
                    None => self.call(0, command, left(by))$($await)*?,
                };
                hold.confirmed(sent);
                Ok(())
            }

            $($async)? fn call(&mut self, key: usize, command: Cmd, listen: Duration) -> RedisResult<Value> {
                let sending = || Ok(Sent { command: command.clone(), by: Instant::now() + listen, is_long: true, once: false, behind: None });
                let by = Instant::now() + SHORT;
                let answer = self.core.pool.call(&self.hold.spec.keys[key], by, false, &sending)$($await)*;
                self.pooled = answer.pooled;
                answer.reply
            }
        }

        impl Core {
            /// Renews the lease. Returns when to call this again, if necessary.
            pub(super) $($async)? fn renew(&self, hold: &Hold) -> Option<Instant> {
                let Some(renewing) = hold.begin_renewal() else { return Some(hold.next_try()) };
                let (sent, lease) = (Instant::now(), hold.lease());
                let (command, by) = (hold.spec.renew(&hold.owner, Some(lease)), hold.short() + hold.spec.replicas_time());
                match judge(self.pool.short(hold.spec.key(), &command, by)$($await)*.reply) {
                    Verdict::Done(_) | Verdict::Null => {
                        renewing.confirmed(sent, lease);
                        Some(sent + lease / 3)
                    }
                    // What reports losses does so at once.
                    Verdict::Never(error) if is_not_held(&error) => {
                        hold.refuted();
                        Some(hold.until())
                    }
                    Verdict::Never(error) => {
                        hold.warn("renewed", &error);
                        Some(hold.next_try())
                    }
                    Verdict::Again(_) => Some(hold.next_try()),
                }
            }

            /// Ends a wait, or releases the hold. Returns the reply: 0 if there was neither, `None` without a reply.
            pub(super) $($async)? fn clear(&self, spec: &Spec, owner: &str) -> Option<i64> {
                if spec.kind == Kind::Latch {
                    return Some(0); // such a wait has no owner, and ends with its connection
                }
                let by = Instant::now() + SHORT;
                let mut reply = self.pool.short(spec.key(), &spec.cancel(owner), by)$($await)*.reply;
                if spec.kind == Kind::Multi && matches!(reply, Ok(Value::Int(0))) {
                    reply = self.pool.short(spec.key(), &spec.release(owner), by)$($await)*.reply;
                }
                match judge(reply) {
                    Verdict::Done(number) => Some(number),
                    Verdict::Again(_) => None,
                    Verdict::Null | Verdict::Never(_) => Some(0),
                }
            }

            /// The error of a trial in the end, with the names of the holders if there is time to request them.
            pub(super) $($async)? fn failed(&self, trial: Trial, spec: &Spec) -> Error {
                let (mut error, by) = trial.error(spec, &self.pool.nodes);
                let Some(by) = by else { return error };
                for key in spec.keys.iter().take_while(|_| !left(by).is_zero()) {
                    let info = self.pool.short(key, &Spec::info(key, 0), by)$($await)*.reply;
                    if info.is_ok_and(|info| held_by(&mut error, &info)) {
                        break;
                    }
                }
                error
            }
        }
    };
}
pub(crate) use watch;

/// Short requests about a lock, whoever holds it.
macro_rules! requests {
    ([$($async:ident)?] [$($await:tt)*]) => {
        impl Core {
            /// Sends a short command about this lock, again while the error is transient, within [`REQUEST`]. `once`: not
            /// if it may have been executed.
            $($async)? fn request(&self, spec: &Spec, key: &[u8], command: &Cmd, once: bool) -> Result<Value> {
                self.shared.check(spec)?;
                let (mut pause, end) = (Pause::new(), Instant::now() + REQUEST);
                loop {
                    let answer = self.pool.brief(key, command, end.min(Instant::now() + SHORT), once)$($await)*;
                    let error = match answer.reply {
                        Ok(reply) => return Ok(reply),
                        Err(error) => error,
                    };
                    let is_last = !again(&error) || once && answer.unsure;
                    match pause.next(Some(end)).filter(|_| !is_last) {
                        Some(pause) => sleep(pause)$($await)*,
                        None => return Err(spec.error(error, &self.pool.nodes)),
                    }
                }
            }
        }

        impl Lock {
            /// Whether any owner holds it, or one of its keys; of a semaphore, whether any permit is taken.
            ///
            /// # Errors
            ///
            /// [`InvalidOption`](crate::Error::InvalidOption), [`Connection`](crate::Error::Connection) if the server has
            /// not replied within two seconds, [`ModuleMissing`](crate::Error::ModuleMissing),
            /// [`Closed`](crate::Error::Closed), [`Refused`](crate::Error::Refused).
            pub $($async)? fn locked(&self) -> Result<bool> {
                Ok(!self.informed(0)$($await)*?.holders.is_empty())
            }

            /// Who holds it, and who waits for it.
            ///
            /// # Errors
            ///
            /// Those of [`locked`](Lock::locked).
            pub $($async)? fn info(&self) -> Result<LockInfo> {
                self.informed(10)$($await)*
            }

            $($async)? fn informed(&self, waiters: usize) -> Result<LockInfo> {
                self.core.shared.check(&self.spec)?;
                let mut info = LockInfo::default();
                for key in &self.spec.keys {
                    let command = Spec::info(key, waiters);
                    info.add(key, &self.core.request(&self.spec, key, &command, false)$($await)*?);
                }
                Ok(info)
            }

            /// Frees it, or each of its keys, whoever holds it, and hands it off to the next waiter. Returns whether it
            /// was held. It is a tool for operators: the holder works on until it notices the loss, and then two may work
            /// under the same lock. It is not repeated: after a lost connection it may have been executed, and would take
            /// the lock from the next owner.
            ///
            /// # Errors
            ///
            /// Those of [`locked`](Lock::locked). The keys on other servers are freed all the same.
            pub $($async)? fn force(&self) -> Result<bool> {
                self.core.shared.check(&self.spec)?;
                let mut result = Ok(false);
                for key in &self.spec.keys {
                    let reply = self.core.request(&self.spec, key, &Spec::force(key), true)$($await)*;
                    let forced = reply.and_then(|reply| self.spec.read::<bool>(reply, &self.core.pool.nodes));
                    result = result.and_then(|others| forced.map(|was_held| others || was_held));
                }
                result
            }
        }
    };
}
pub(crate) use requests;

/// What is done with a hold: its renewal by the program, commands under it, and its release.
macro_rules! release {
    ([$($async:ident)?] [$($await:tt)*]) => {
        impl Held {
            /// Renews the lease now, with another one if it is given.
            pub(super) $($async)? fn renewed(&self, lease: Option<Duration>) -> Result<()> {
                let (hold, spec, pool) = (&self.hold, &self.hold.spec, &self.core.pool);
                spec.check_renewal(lease)?;
                let mut renewing = begin_renewal(hold)$($await)*;
                hold.check()?;
                let lease = lease.unwrap_or_else(|| hold.lease());
                let command = spec.renew(&hold.owner, (!spec.session).then_some(lease));
                renewing.sends(lease);
                self.reschedule();
                let (mut pause, end, mut unsure) = (Pause::new(), Instant::now() + REQUEST, false);
                let error = loop {
                    let (sent, by) = (Instant::now(), hold.short().min(end) + spec.replicas_time());
                    let answer = pool.short(spec.key(), &command, by)$($await)*;
                    unsure |= answer.unsure;
                    match judge(answer.reply) {
                        Verdict::Done(_) | Verdict::Null => {
                            // A session's clock is that of its connection.
                            if !spec.session {
                                renewing.confirmed(sent, lease);
                                self.reschedule();
                            }
                            return hold.check(); // it may have been lost meanwhile
                        }
                        Verdict::Again(error) => match pause.next(Some(end.min(hold.until()))) {
                            Some(pause) => sleep(pause)$($await)*,
                            None => break error,
                        },
                        Verdict::Never(error) => break error,
                    }
                };
                let error = spec.error(error, &pool.nodes);
                match &error {
                    Error::NotHeld { .. } => hold.lost(),
                    // It may be in force, although too few replicas have it.
                    Error::NoReplicas { .. } => {}
                    _ if unsure => {}
                    _ => {
                        renewing.refused();
                        self.reschedule();
                    }
                }
                Err(error)
            }

            /// Executes a command if this lock is held at that moment, as [`Guard::guard`] does.
            ///
            /// # Errors
            ///
            /// Those of [`Guard::guard`].
            pub $($async)? fn guard<T: FromRedisValue>(&self, command: &Cmd) -> Result<T> {
                let (hold, spec) = (&self.hold, &self.hold.spec);
                hold.check()?;
                let command = spec.guard(&hold.owner, command);
                let result = self.core.request(spec, spec.key(), &command, true)$($await)*;
                if matches!(result, Err(Error::NotHeld { .. })) {
                    hold.lost();
                }
                spec.read(result?, &self.core.pool.nodes)
            }
        }

        /// Releases these in the background, the last one first, and waits for that until `by`: a program that ends then
        /// leaves none of them behind.
        pub(super) $($async)? fn give_back(mut held: Vec<Held>, by: Instant) {
            let mut releasing = Vec::new();
            while let Some(one) = held.pop() {
                releasing.push((one.core.clone(), one.hold.clone()));
                one.give_back();
            }
            while !left(by).is_zero() && releasing.iter().any(|(core, hold)| core.shared.is_releasing(hold)) {
                sleep(SETTLING.min(left(by)))$($await)*;
            }
        }

        /// Begins a renewal when no other one is in progress.
        pub(super) $($async)? fn begin_renewal(hold: &Hold) -> Renewing<'_> {
            loop {
                match hold.begin_renewal() {
                    Some(renewing) => break renewing,
                    None => sleep(SETTLING)$($await)*,
                }
            }
        }

        /// A release that may have to be sent more than once.
        pub(super) struct Releasing {
            core: Arc<Core>,
            hold: Arc<Hold>,
            /// If it was lost before, NOTHELD does not mean that an earlier release was executed.
            ended: Ended,
            /// Whether an earlier release may have been executed.
            repeated: bool,
        }

        impl Releasing {
            /// From now on there are no renewals, and no loss is reported.
            pub fn new(core: &Arc<Core>, hold: &Arc<Hold>) -> Self {
                Self { core: core.clone(), hold: hold.clone(), ended: hold.end(), repeated: false }
            }

            /// What closing a factory releases. A hold that other factories have a part in is lost, and released on the
            /// server here: the others are released with their guard.
            pub fn closing(core: &Arc<Core>, hold: &Arc<Hold>) -> Self {
                match hold.is_spread() {
                    true => Self { core: core.clone(), hold: hold.clone(), ended: hold.closed(), repeated: false },
                    false => Self::new(core, hold),
                }
            }

            /// Sends the command until there is a reply, or until `end`: then `Err`.
            $($async)? fn run(&mut self, end: Instant) -> Result<Result<()>> {
                let mut pause = Pause::new();
                while !self.ended.is_before() {
                    match self.step()$($await)* {
                        Ok(replied) => return Ok(replied),
                        Err(error) => match pause.next(Some(end)) {
                            Some(pause) => sleep(pause)$($await)*,
                            None => return Err(error),
                        },
                    }
                }
                Ok(Ok(()))
            }

            $($async)? fn step(&mut self) -> Result<Result<()>> {
                let (spec, owner, pool) = (&self.hold.spec, &self.hold.owner, &self.core.pool);
                let by = || Instant::now() + SHORT;
                let answer = pool.short(spec.key(), &spec.release(owner), by())$($await)*;
                self.repeated |= answer.unsure;
                let repeated = self.repeated && self.ended == Ended::Held && !self.hold.is_expired();
                let replied = match judge(answer.reply) {
                    Verdict::Done(_) | Verdict::Null => Ok(()),
                    Verdict::Again(error) => return Err(spec.error(error, &pool.nodes)),
                    Verdict::Never(error) if is_not_held(&error) => {
                        // One key of a multi-key lock was lost: the others are released one by one.
                        for command in spec.release_each(owner) {
                            pool.short(spec.key(), &command, by())$($await)*;
                        }
                        if repeated { Ok(()) } else { Err(error) }
                    }
                    Verdict::Never(error) => Err(error),
                };
                if self.hold.unsure {
                    self.core.clear_later(spec.clone(), owner.clone());
                }
                Ok(replied.map_err(|error| spec.error(error, &pool.nodes)))
            }
        }

        impl Drop for Releasing {
            fn drop(&mut self) {
                // It has ended, also if it was never executed.
                if !self.ended.is_before() {
                    self.core.shared.remove(&self.hold.owner);
                }
            }
        }
    };
}
pub(crate) use release;
