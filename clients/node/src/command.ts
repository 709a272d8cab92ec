/** The arguments of the commands, independent of a server. */
import { NAMES } from './errors.js';

export type Kind = 'lock' | 'fair' | 'read' | 'write' | 'multi' | 'semaphore';

/** The settings of a lock; all are optional. */
export interface LockOptions {
  /** How long a hold lasts without renewal, in ms; 30000 by default. */
  leaseMs?: number | undefined;
  /** Whether the server renews the lease, for as long as the hold's own connection lives. */
  session?: boolean | undefined;
  /** Request a fencing token, `hold.token`. For `lock`, `fair` and `write` only. */
  fenced?: boolean | undefined;
  /** `count` replicas must acknowledge the grant within `ms`, and each renewal too. */
  replicas?: { count: number; ms: number } | undefined;
  /**
   * Whether to renew the lease in the background, at a third of it; true by default. If not, a lease is renewed once
   * after a wait that was longer than a third of it, because then it is not known when the lease began.
   */
  renew?: boolean | undefined;
  /**
   * False: `hold.signal` is aborted at the next renewal after a loss. By default it is aborted at once, for which a
   * connection is used for each key, from the first use of `hold.signal`.
   */
  watch?: boolean | undefined;
  /**
   * In the body of run() or withLock(), and in all that it starts, the same lock of the same Locks is acquired again
   * without a request: it shares the owner and the token, and the last release releases the lock. Not for a semaphore.
   */
  reentrant?: boolean | undefined;
}

/** The settings of a semaphore. */
export interface SemaphoreOptions extends LockOptions {
  /** How many permits to acquire; 1 by default. */
  permits?: number | undefined;
}

/** The keys of a multi-key lock: plain locks, or read-write locks to read or to write. A key in both is written. */
export type MultiKeys = readonly string[] | { read?: readonly string[]; write?: readonly string[] };

export type Mode = 'READ' | 'WRITE';

/** The settings of a lock, with all defaults filled in. */
export interface Spec extends SemaphoreOptions {
  kind: Kind;
  /** The keys on the server, with the client's key prefix. */
  keys: string[];
  /** The mode of each key, if they are read-write locks. */
  modes?: Mode[] | undefined;
  leaseMs: number;
  permits: number;
  renew: boolean;
  /** The limit of a semaphore; otherwise 1. */
  limit: number;
}

const KINDS: ReadonlySet<Kind> = new Set<Kind>(['lock', 'fair', 'read', 'write', 'multi', 'semaphore']);

const NO_TOKEN: Partial<Record<Kind, string>> = {
  read: 'a read lock',
  multi: 'a multi-key lock',
  semaphore: 'a semaphore',
};

/** The names of all options; the compiler finds one that is missing. */
export type Names<Options> = Record<keyof Options, true>;

/** The options of locks. */
export const LOCK_OPTIONS: Names<LockOptions> = {
  leaseMs: true,
  session: true,
  fenced: true,
  replicas: true,
  renew: true,
  watch: true,
  reentrant: true,
};

const SEMAPHORE_OPTIONS: Names<SemaphoreOptions> = { ...LOCK_OPTIONS, permits: true };

/** Throws for an option that does not exist: if it is only misspelled, the program relies on it. */
export function checkOptions<Options extends object>(options: Options, names: Names<Options>): void {
  if (typeof options !== 'object' || options === null) {
    throw new TypeError(`options must be an object, not ${String(options)}`);
  }
  const unknown = Object.keys(options).find((name) => !Object.hasOwn(names, name));
  if (unknown !== undefined) {
    throw new TypeError(`${unknown}: there is no such option here, only ${Object.keys(names).join(', ')}`);
  }
}

/** Throws unless `value` is a number of ms, of which the server counts whole ones: 1 ms is the shortest time. */
export function checkPositive(name: string, value: number): void {
  if (typeof value !== 'number' || !(value > 0)) {
    throw new RangeError(`${name} must be greater than 0, not ${String(value)}`);
  }
  if (value < 1) {
    throw new RangeError(`${name} must be at least 1 ms, not ${value}`);
  }
  if (!Number.isSafeInteger(value)) {
    throw new RangeError(`${name} must be a whole number, not ${value}`);
  }
}

export function checkCount(name: string, value: number): void {
  if (!Number.isSafeInteger(value) || value < 1) {
    throw new RangeError(`${name} must be at least 1, not ${String(value)}`);
  }
}

/** Throws for a number of ms that is negative or not whole. */
export function checkDelay(name: string, value: number): void {
  if (!Number.isSafeInteger(value) || value < 0) {
    throw new RangeError(`${name} must be a whole number and not negative, not ${String(value)}`);
  }
}

/** Throws unless `value`, which is to be called later, is a function. */
export function checkFunction(name: string, value: unknown): void {
  if (typeof value !== 'function') {
    throw new TypeError(`${name} must be a function, not ${String(value)}`);
  }
}

export function checkKey(key: string): void {
  if (typeof key !== 'string') {
    throw new TypeError(`a key must be a string, not ${String(key)}`);
  }
}

function checkKeys(kind: Kind, keys: readonly string[]): void {
  if (!KINDS.has(kind)) {
    throw new TypeError(`kind: there is no ${String(kind)}`);
  }
  if (keys.length === 0) {
    throw new RangeError('keys must not be empty');
  }
  keys.forEach(checkKey);
  if (kind !== 'multi' && keys.length > 1) {
    throw new TypeError(`keys: a ${NAMES[kind]} has one key, not ${keys.length}`);
  }
}

function checkPermits(permits: number | undefined, limit: number): void {
  checkCount('limit', limit);
  if (permits !== undefined && !(Number.isSafeInteger(permits) && permits >= 1 && permits <= limit)) {
    throw new RangeError(`permits must be from 1 to the limit of ${limit}, not ${String(permits)}`);
  }
}

/**
 * The settings of a lock of this kind, whose keys get the prefix. Throws TypeError or RangeError for settings that are
 * always invalid, with the option's name.
 */
export function specOf(kind: Kind, keys: readonly string[], options: SemaphoreOptions, limit = 1, prefix = '', modes?: Mode[]): Spec {
  const isSemaphore = kind === 'semaphore';
  if (!isSemaphore && options?.permits !== undefined) {
    throw new TypeError('permits: only a semaphore has permits');
  }
  checkOptions(options, isSemaphore ? SEMAPHORE_OPTIONS : LOCK_OPTIONS);
  const { leaseMs = 30_000, permits, fenced, replicas, renew = true, reentrant } = options;
  checkKeys(kind, keys);
  checkPositive('leaseMs', leaseMs);
  if (isSemaphore) {
    checkPermits(permits, limit);
  }
  if (modes !== undefined && kind !== 'multi') {
    throw new TypeError(`keys: a ${NAMES[kind]} has no { read, write }`);
  }
  if (fenced && NO_TOKEN[kind] !== undefined) {
    throw new TypeError(`fenced: ${NO_TOKEN[kind]} has no fencing token`);
  }
  if (reentrant && isSemaphore) {
    throw new TypeError('reentrant: a semaphore cannot be entered again');
  }
  if (replicas !== undefined) {
    checkCount('replicas', replicas.count);
    checkPositive('replicas: the time', replicas.ms);
  }
  return { ...options, kind, keys: keys.map((key) => prefix + key), modes, limit, permits: permits ?? 1, leaseMs, renew };
}

/** The keys in order, and the mode of each. */
export function multiKeysOf(keys: MultiKeys): { keys: readonly string[]; modes?: Mode[] } {
  if (isList(keys)) {
    return { keys };
  }
  if (typeof keys !== 'object' || keys === null) {
    throw new TypeError(`keys must be a list or { read, write }, not ${String(keys)}`);
  }
  checkOptions(keys, { read: true, write: true });
  for (const [name, list] of Object.entries(keys)) {
    if (list !== undefined && !Array.isArray(list)) {
      throw new TypeError(`${name} must be a list of keys, not ${String(list)}`);
    }
  }
  const write = [...(keys.write ?? [])];
  const read = (keys.read ?? []).filter((key) => !write.includes(key));
  return { keys: [...read, ...write], modes: [...read.map((): Mode => 'READ'), ...write.map((): Mode => 'WRITE')] };
}

function isList(keys: MultiKeys): keys is readonly string[] {
  return Array.isArray(keys);
}

function counted(word: string, { keys, modes }: Spec, owner: string): string[] {
  return [word, String(keys.length), ...keys, owner, ...(modes === undefined ? [] : ['MODES', ...modes])];
}

function head(spec: Spec, owner: string): string[] {
  const key = firstKey(spec);
  switch (spec.kind) {
    case 'lock':
      return ['LOCK.ACQUIRE', key, owner];
    case 'fair':
      return ['LOCK.FAIR', key, owner];
    case 'read':
      return ['LOCK.RWREAD', key, owner];
    case 'write':
      return ['LOCK.RWWRITE', key, owner];
    case 'multi':
      return counted('LOCK.MACQUIRE', spec, owner);
    case 'semaphore':
      return ['LOCK.SEMAPHORE', key, owner, String(spec.limit), 'PERMITS', String(spec.permits)];
  }
}

/** The key by which a command is routed, and which LOCK.CANCEL uses. */
export function firstKey(spec: Spec): string {
  return spec.keys[0] as string;
}

function lease(spec: Spec): string[] {
  return spec.session ? ['SESSION'] : ['PX', String(spec.leaseMs)];
}

function replicas(spec: Spec): string[] {
  return spec.replicas ? ['REPLICAS', String(spec.replicas.count), String(spec.replicas.ms)] : [];
}

/**
 * The request. `block`: how long it blocks, in ms; 0 has no limit, null does not block. It is safe to send it again.
 */
export function acquire(spec: Spec, owner: string, block: number | null): string[] {
  const wait = block === null ? [] : ['BLOCK', String(block)];
  return [...head(spec, owner), ...lease(spec), ...wait, ...(spec.fenced ? ['FENCED'] : []), 'ONCE', ...replicas(spec)];
}

/** Selects the hold of the key: the arguments of LOCK.RELEASE and LOCK.CANCEL after the owner. */
function which(spec: Spec): string[] {
  switch (spec.kind) {
    case 'read':
      return ['READ'];
    case 'write':
      return ['WRITE'];
    case 'semaphore':
      return ['PERMITS', String(spec.permits)];
    default:
      return [];
  }
}

/** Ends a wait, and releases the hold if it was granted already; for a multi-key lock it only ends the wait. */
export function cancel(spec: Spec, owner: string): string[] {
  const giveBack = spec.kind === 'multi' ? [] : ['RELEASE', ...which(spec)];
  return ['LOCK.CANCEL', firstKey(spec), owner, ...giveBack];
}

/** Releases the hold; of a multi-key lock, all keys or none. */
export function release(spec: Spec, owner: string): string[] {
  return spec.kind === 'multi'
    ? counted('LOCK.MRELEASE', spec, owner)
    : ['LOCK.RELEASE', firstKey(spec), owner, ...which(spec)];
}

/** Releases what is left of the hold of one key of a multi-key lock. */
export function releaseOne({ keys, modes = [] }: Spec, at: number, owner: string): string[] {
  return ['LOCK.RELEASE', keys[at] as string, owner, ...modes.slice(at, at + 1)];
}

/** Renews the leases of all keys, or of none; `leaseMs` is the new lease. */
export function renew(spec: Spec, owner: string, leaseMs = spec.leaseMs): string[] {
  const { keys } = spec;
  const head = keys.length > 1 ? ['LOCK.MRENEW', String(keys.length), ...keys] : ['LOCK.RENEW', firstKey(spec)];
  return [...head, owner, ...lease({ ...spec, leaseMs }), ...replicas(spec)];
}

/** Who holds `key`, and how many wait; the first `count` of these. */
export function info(key: string, count = 0): string[] {
  return ['LOCK.INFO', key, 'COUNT', String(count)];
}

/** Frees `key`, whoever holds it. */
export function force(key: string): string[] {
  return ['LOCK.FORCE', key];
}

/** Runs a command if the hold still exists. */
export function guard(spec: Spec, owner: string, command: readonly string[]): string[] {
  return ['LOCK.GUARD', firstKey(spec), owner, ...command];
}

/** Waits up to `block` ms for a notification that the hold of `key` is lost. */
export function watch(key: string, owner: string, block: number): string[] {
  return ['LOCK.WATCH', key, owner, 'BLOCK', String(block)];
}
