export type { Settings } from './connections.js';
export type { LockOptions, MultiKeys, SemaphoreOptions, Kind } from './command.js';
export { Closed, Deadlock, LockError, NoReplicas, NotAcquired, NotHeld, Refused, type Subject } from './errors.js';
export type { Hold } from './hold.js';
export type { Lock, Locks, WaitOptions, WithLockOptions } from './locks.js';
