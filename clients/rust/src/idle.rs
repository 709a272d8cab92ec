//! Idle connections, the same for both flavours.

use std::collections::HashMap;
use std::time::Instant;

use crate::nodes::Name;
use crate::util::STALE;

/// How many connections of each kind to a node are kept, and how many are used for short commands at a time.
pub(crate) const MANY: usize = 16;
/// How many are opened at a time by what may have to leave them: threads, and tasks with less than a second.
pub(crate) const OPENING: usize = 256;

/// The idle connections to each node. At least one of a node is kept for short commands, so that what waits for a lock
/// never takes the last connection that the server accepts from what releases it.
pub(crate) struct Idle<C> {
    nodes: HashMap<Name, Node<C>>,
    is_closed: bool,
    /// How often a connection was lost: a new one may lead to another server.
    pub losses: u64,
}

struct Node<C> {
    /// For any command, and for short ones; with the time of their last use.
    kept: [Vec<(C, Instant)>; 2],
    /// Whether it has a connection for short commands, idle or in use.
    is_ready: bool,
}

impl<C> Default for Idle<C> {
    fn default() -> Self {
        Self { nodes: HashMap::new(), is_closed: false, losses: 0 }
    }
}

impl<C> Idle<C> {
    pub fn is_ready(&self, name: &Name) -> bool {
        self.nodes.get(name).is_some_and(|node| node.is_ready)
    }

    /// A connection, and whether it must be checked.
    pub fn take(&mut self, name: &Name, is_short: bool) -> Option<(C, bool)> {
        let [any, short] = &mut self.nodes.get_mut(name)?.kept;
        let taken = match is_short {
            true => short.pop().or_else(|| any.pop()),
            false => any.pop().or_else(|| if short.len() > 1 { short.pop() } else { None }),
        };
        taken.map(|(connection, used)| (connection, used.elapsed() > STALE))
    }

    pub fn keep(&mut self, name: &Name, is_short: bool, connection: C) {
        let new = || Node { kept: [Vec::new(), Vec::new()], is_ready: false };
        let node = self.nodes.entry(name.clone()).or_insert_with(new);
        node.is_ready |= is_short;
        let kept = &mut node.kept[usize::from(is_short)];
        if kept.len() < MANY && !self.is_closed {
            kept.push((connection, Instant::now()));
        }
    }

    pub fn forget(&mut self, name: &Name) {
        self.losses += 1;
        self.nodes.remove(name);
    }

    pub fn close(&mut self) {
        (self.nodes, self.is_closed) = (HashMap::new(), true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_does_not_take_the_last_connection_for_short_commands() {
        let (mut idle, name) = (Idle::default(), Name::from("a"));
        idle.keep(&name, true, 1);
        assert!(idle.is_ready(&name) && idle.take(&name, false).is_none());
        idle.keep(&name, false, 2);
        assert_eq!(idle.take(&name, false), Some((2, false)));
        idle.keep(&name, true, 3);
        assert_eq!(idle.take(&name, false), Some((3, false)));
        assert_eq!(idle.take(&name, true), Some((1, false)));
        (0..20).for_each(|number| idle.keep(&name, false, number));
        assert_eq!((0..20).filter(|_| idle.take(&name, true).is_some()).count(), MANY);
        idle.forget(&name);
        assert!(!idle.is_ready(&name));
    }
}
