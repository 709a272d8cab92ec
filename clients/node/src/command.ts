/** What is asked for: the words of the commands, without a server. */

export type Kind = 'lock' | 'fair' | 'read' | 'write' | 'multi' | 'semaphore';

/** The settings of a lock; all may be left out. */
export interface LockOptions {
  /** How long a hold lives without renewal, in ms; 30000 without it. */
  leaseMs?: number;
  /** Have the server renew the lease for as long as a connection of the hold's own lives. */
  session?: boolean;
  /** Ask for a fencing token, `hold.token`. For plain, fair and write locks. */
  fenced?: boolean;
  /** Hold the lock only when so many replicas have acknowledged it, each time within `ms`. */
  replicas?: { count: number; ms: number };
  /** Renew the lease in the background, at a third of it; true without it. */
  renew?: boolean;
  /** Hear of a loss at once, on a connection of its own for each key, and not at the next renewal. */
  watch?: boolean;
  /** Of a semaphore: how many of its permits to take; 1 without it. */
  permits?: number;
}

/** A lock, with nothing left open. */
export interface Spec extends LockOptions {
  kind: Kind;
  /** As the server knows them, with the client's key prefix. */
  keys: string[];
  leaseMs: number;
  permits: number;
  renew: boolean;
  /** Of a semaphore. */
  limit?: number;
}

const FENCEABLE = new Set<Kind>(['lock', 'fair', 'write']);

/**
 * A lock of this kind. Throws TypeError or RangeError for what could never be right; what only the server knows it
 * refuses itself.
 */
export function specOf(kind: Kind, keys: string[], options: LockOptions, limit?: number): Spec {
  const spec = { permits: 1, ...options, kind, keys, limit, leaseMs: options.leaseMs ?? 30_000, renew: options.renew ?? true };
  if (keys.length === 0) {
    throw new TypeError('a lock needs a key');
  }
  if (spec.fenced && !FENCEABLE.has(kind)) {
    throw new TypeError(`there are no fencing tokens for ${kind} locks`);
  }
  if (!Number.isSafeInteger(spec.leaseMs) || spec.leaseMs < 1) {
    throw new RangeError('leaseMs is not a positive integer');
  }
  return spec;
}

function counted(word: string, spec: Spec, owner: string): string[] {
  return [word, String(spec.keys.length), ...spec.keys, owner];
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

/** The key by which a command is routed, and a wait is named. */
export function firstKey(spec: Spec): string {
  return spec.keys[0] as string;
}

function lease(spec: Spec): string[] {
  return spec.session ? ['SESSION'] : ['PX', String(spec.leaseMs)];
}

function replicas(spec: Spec): string[] {
  return spec.replicas ? ['REPLICAS', String(spec.replicas.count), String(spec.replicas.ms)] : [];
}

/** The request. `block`: how long it waits, in ms; 0 for ever, null not at all. Safe to send again. */
export function acquire(spec: Spec, owner: string, block: number | null): string[] {
  const wait = block === null ? [] : ['BLOCK', String(block)];
  return [...head(spec, owner), ...lease(spec), ...wait, ...(spec.fenced ? ['FENCED'] : []), 'ONCE', ...replicas(spec)];
}

/** Which hold of the key: what LOCK.RELEASE and LOCK.CANCEL say behind the owner. */
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

/** Ends a wait, and gives back the hold that has come of it; of several locks, the wait only. */
export function cancel(spec: Spec, owner: string): string[] {
  const giveBack = spec.kind === 'multi' ? [] : ['RELEASE', ...which(spec)];
  return ['LOCK.CANCEL', firstKey(spec), owner, ...giveBack];
}

/** Gives the hold back; of several locks, all or none. */
export function release(spec: Spec, owner: string): string[] {
  return spec.kind === 'multi'
    ? counted('LOCK.MRELEASE', spec, owner)
    : ['LOCK.RELEASE', firstKey(spec), owner, ...which(spec)];
}

/** Gives the hold of `key` a new lease. */
export function renew(spec: Spec, key: string, owner: string): string[] {
  return ['LOCK.RENEW', key, owner, ...lease(spec), ...replicas(spec)];
}

/** Asks to be told that the hold of `key` is gone, for so many ms. */
export function watch(key: string, owner: string, block: number): string[] {
  return ['LOCK.WATCH', key, owner, 'BLOCK', String(block)];
}
