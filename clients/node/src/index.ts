export type { Acquirable, WaitOptions } from './acquirable.js';
export type { LockOptions, MultiKeys, SemaphoreOptions, Kind } from './command.js';
export type { Settings } from './connections.js';
export { Closed, Deadlock, LockError, NoReplicas, NotAcquired, NotHeld, Refused, type Subject, type SubjectKind } from './errors.js';
export type { Hold } from './hold.js';
export type { LockHolder, LockInfo, LockWaiter } from './info.js';
export type { Lock } from './lock.js';
export type { Locks, WithLockOptions } from './locks.js';
