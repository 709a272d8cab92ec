/** The arguments of the commands, independent of a server. */

export type Kind = 'lock' | 'fair' | 'read' | 'write' | 'multi' | 'semaphore';

/** The settings of a lock; all are optional. */
export interface LockOptions {
  /** How long a hold lasts without renewal, in ms; 30000 by default. */
  leaseMs?: number;
  /** Whether the server renews the lease, for as long as the hold's own connection lives. */
  session?: boolean;
  /** Request a fencing token, `hold.token`. For `lock`, `fair` and `write` only. */
  fenced?: boolean;
  /** `count` replicas must acknowledge the grant within `ms`, and each renewal too. */
  replicas?: { count: number; ms: number };
  /** Whether to renew the lease in the background, at a third of it; true by default. */
  renew?: boolean;
  /** Be notified of a loss at once, on a connection for each key, and not at the next renewal. */
  watch?: boolean;
  /** How many permits of a semaphore to acquire; 1 by default. */
  permits?: number;
}

/** The settings of a lock, with all defaults filled in. */
export interface Spec extends LockOptions {
  kind: Kind;
  /** The keys on the server, with the client's key prefix. */
  keys: string[];
  leaseMs: number;
  permits: number;
  renew: boolean;
  /** The limit of a semaphore. */
  limit?: number;
}

const FENCEABLE = new Set<Kind>(['lock', 'fair', 'write']);

/**
 * The settings of a lock of this kind. Throws TypeError or RangeError for settings that are always invalid; the server
 * refuses other invalid settings.
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

/** Renews the lease of `key`. */
export function renew(spec: Spec, key: string, owner: string): string[] {
  return ['LOCK.RENEW', key, owner, ...lease(spec), ...replicas(spec)];
}

/** Waits up to `block` ms for a notification that the hold of `key` is lost. */
export function watch(key: string, owner: string, block: number): string[] {
  return ['LOCK.WATCH', key, owner, 'BLOCK', String(block)];
}
