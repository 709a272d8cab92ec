//! Threads that wait for the server's notification of a loss. For a session, this also maintains the connection.

use std::sync::Arc;
use std::thread::{sleep, Builder};
use std::time::{Duration, Instant};

use redis::{Cmd, RedisResult, Value};

use super::pool::Pooled;
use super::Core;
use crate::hold::{Hold, Watched};
use crate::spec::{Kind, Spec};
use crate::trial::{held_by, Trial};
use crate::util::{is_not_held, judge, left, Pause, Sent, Verdict, SHORT};
use crate::Error;

/// Watches all keys of a hold, as long as it is held. `pooled` is a session's connection.
pub(super) fn start(core: &Arc<Core>, hold: &Arc<Hold>, mut pooled: Option<Pooled>) {
    let keys = if hold.spec.watch { hold.spec.keys.len() } else { 1 };
    for key in 0..keys {
        let watch =
            Watch { core: core.clone(), hold: hold.clone(), key, pooled: pooled.take(), last: None, is_refused: false };
        if Builder::new().spawn(move || watch.run()).is_err() && hold.spec.session {
            hold.unbound();
        }
    }
}

crate::both::watch!([] []);
