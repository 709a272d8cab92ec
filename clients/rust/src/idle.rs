//! Idle connections, the same for both flavours.

use std::collections::{HashMap, HashSet};

use crate::nodes::{Name, KEPT};

/// The idle connections to each node. At least one of a node is kept for short commands, so that what waits for a lock
/// never takes the last connection that the server accepts from what releases it.
pub(crate) struct Idle<C> {
    any: HashMap<Name, Vec<C>>,
    short: HashMap<Name, Vec<C>>,
    /// The nodes that have a connection for short commands, idle or in use.
    ready: HashSet<Name>,
    is_closed: bool,
}

impl<C> Default for Idle<C> {
    fn default() -> Self {
        Self { any: HashMap::new(), short: HashMap::new(), ready: HashSet::new(), is_closed: false }
    }
}

impl<C> Idle<C> {
    pub fn is_ready(&self, name: &Name) -> bool {
        self.ready.contains(name)
    }

    /// A connection for a command that waits, or for a short one.
    pub fn take(&mut self, name: &Name, waits: bool) -> Option<C> {
        let (any, short) = (self.any.get_mut(name), self.short.get_mut(name));
        if waits {
            any.and_then(Vec::pop).or_else(|| short.filter(|short| short.len() > 1).and_then(Vec::pop))
        } else {
            short.and_then(Vec::pop).or_else(|| any.and_then(Vec::pop))
        }
    }

    pub fn keep(&mut self, name: Name, connection: C) {
        Self::store(&mut self.any, name, connection, self.is_closed);
    }

    pub fn keep_short(&mut self, name: Name, connection: C) {
        self.ready.insert(name.clone());
        Self::store(&mut self.short, name, connection, self.is_closed);
    }

    pub fn forget(&mut self, name: &Name) {
        self.any.remove(name);
        self.short.remove(name);
        self.ready.remove(name);
    }

    pub fn close(&mut self) {
        *self = Self { is_closed: true, ..Self::default() };
    }

    fn store(connections: &mut HashMap<Name, Vec<C>>, name: Name, connection: C, is_closed: bool) {
        let kept = connections.entry(name).or_default();
        if kept.len() < KEPT && !is_closed {
            kept.push(connection);
        }
    }
}
