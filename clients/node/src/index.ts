export type { Settings } from './connections.js';
export type { LockOptions, Kind } from './command.js';
export type { Address, Connection, Connector } from './connector.js';
export { Closed, Deadlock, LockError, NoReplicas, NotAcquired, NotHeld, Refused, ServerError } from './errors.js';
export type { Hold } from './hold.js';
export { Lock, Locks, type WaitOptions, type WithLockOptions } from './locks.js';
