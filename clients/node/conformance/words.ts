import { Closed, combine, Deadlock, ModuleMissing, NoReplicas, NotAcquired, NotHeld, Refused, RedLock, type Acquirable, type Lock, type LockOptions, type Locks, type MultiKeys } from '../src/index.js';

/** The lock in a request. A null field is treated as omitted. */
export interface LockWords {
  kind: 'lock' | 'fair' | 'read' | 'write' | 'multi' | 'semaphore' | 'combine' | 'redlock';
  keys: string[];
  modes?: ('read' | 'write')[] | null;
  limit?: number | null;
  permits?: number | null;
  lease_ms?: number | null;
  session?: boolean | null;
  fenced?: boolean | null;
  replicas?: [number, number] | null;
  renew?: boolean | null;
  watch?: boolean | 'raise' | null;
  reentrant?: boolean | null;
  on?: string[] | null;
  members?: { on: string; lock: LockWords }[] | null;
}

function optionsOf(words: LockWords): LockOptions {
  const { permits, lease_ms, session, fenced, replicas, renew, reentrant } = words;
  return {
    ...(permits == null ? {} : { permits }),
    ...(lease_ms == null ? {} : { leaseMs: lease_ms }),
    ...(session == null ? {} : { session }),
    ...(fenced == null ? {} : { fenced }),
    ...(replicas == null ? {} : { replicas: { count: replicas[0], ms: replicas[1] } }),
    ...(renew == null ? {} : { renew }),
    ...(reentrant == null ? {} : { reentrant }),
  };
}

function keysOf({ keys, modes }: LockWords): MultiKeys {
  const of = (mode: string) => keys.filter((_, at) => modes?.[at] === mode);
  return modes == null ? keys : { read: of('read'), write: of('write') };
}

/** The lock of a request; `locksOf` are the lock factories by name. */
export function acquirableOf(locks: Locks, words: LockWords, locksOf: (name: string) => Locks): Acquirable {
  if (words.kind === 'redlock') {
    return new RedLock((words.on ?? []).map(locksOf)).lock(words.keys[0] ?? '', optionsOf(words));
  }
  return lockOf(locks, words, locksOf);
}

/** The same for one that can be inspected. */
export function lockOf(locks: Locks, words: LockWords, locksOf: (name: string) => Locks = () => locks): Lock {
  if (words.kind === 'combine') {
    return combine(...(words.members ?? []).map(({ on, lock }) => lockOf(locksOf(on), lock)));
  }
  const options = optionsOf(words);
  const [key = ''] = words.keys;
  switch (words.kind) {
    case 'redlock':
      throw new TypeError('kind: a RedLock cannot be inspected');
    case 'lock':
      return locks.lock(key, options);
    case 'multi':
      return locks.multi(keysOf(words), options);
    case 'semaphore':
      return locks.semaphore(key, words.limit ?? 1, options);
    default:
      return locks[words.kind](key, options);
  }
}

/** `wait_ms`: null has no limit. */
export function waitOf(wait_ms: number | null | undefined): { waitMs?: number } {
  return wait_ms == null ? {} : { waitMs: wait_ms };
}

/** The error of a `within` body that is to fail. */
export class BodyError extends Error {}

/** The reason of an abort by `cancel`. */
export class Cancelled extends Error {}

const CODES: [new (...args: never[]) => Error, string][] = [
  [NotAcquired, 'not_acquired'],
  [NotHeld, 'not_held'],
  [Deadlock, 'deadlock'],
  [NoReplicas, 'no_replicas'],
  [ModuleMissing, 'module_missing'],
  [Refused, 'refused'],
  [Closed, 'closed'],
  [BodyError, 'body'],
  [Cancelled, 'cancelled'],
];

/** Names of errors that are not connection errors. */
const OURS = new Set(['ReferenceError', 'SyntaxError', 'LockError']);

/** Errors in options. */
const OPTIONS = new Set(['TypeError', 'RangeError']);

/** The protocol's code for an error. */
export function codeOf(error: unknown): string {
  if (error instanceof TypeError && error.message.startsWith('not a client of')) {
    return 'wrong_client';
  }
  for (const [type, code] of CODES) {
    if (error instanceof type) {
      return code;
    }
  }
  if (error instanceof Error && OPTIONS.has(error.name)) {
    return 'bad_option';
  }
  return error instanceof Error && !OURS.has(error.name) ? 'connection' : 'other';
}
