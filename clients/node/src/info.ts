/** What LOCK.INFO replies. */

/** An owner that holds a key of a lock. */
export interface LockHolder {
  /** The key on the server. */
  key: string;
  owner: string;
  /** `exclusive`, `write`, `read` or `semaphore`. */
  mode: string;
  /** How many holds, or permits, the owner has in this mode. */
  holds: number;
  /** How long its lease will last, in ms; null without an end. */
  leftMs: number | null;
  /** Whether the hold is bound to a connection. */
  session: boolean;
}

/** An owner that waits for a key of a lock. */
export interface LockWaiter {
  /** The key on the server. */
  key: string;
  owner: string;
  /** `exclusive`, `write`, `read` or `semaphore`. */
  mode: string;
  /** Whether it waits in the fair queue. */
  fair: boolean;
  /** How long it has waited, in ms. */
  waitedMs: number;
  /** How long it will wait at most, in ms; null without a limit. */
  leftMs: number | null;
}

/** Who holds a lock, and who waits for it. */
export interface LockInfo {
  /** The holders of all keys. */
  holders: LockHolder[];
  /** How many wait, for several keys the sum. */
  waiting: number;
  /** The first ten waiters of each key. */
  waiters: LockWaiter[];
}

/** A field of a map in a reply: a library may return a map as an object, a Map, or a flat array. */
export function field(reply: unknown, name: string): unknown {
  if (reply instanceof Map) {
    return reply.get(name);
  }
  if (Array.isArray(reply)) {
    const at = reply.findIndex((value, index) => index % 2 === 0 && String(value) === name);
    return at < 0 ? undefined : reply[at + 1];
  }
  return typeof reply === 'object' && reply !== null ? (reply as Record<string, unknown>)[name] : undefined;
}

function list(reply: unknown, name: string): unknown[] {
  const items = field(reply, name);
  return Array.isArray(items) ? items : [];
}

/** The owners in a reply of LOCK.INFO. */
export function holdersIn(reply: unknown): string[] {
  return list(reply, 'holders').map((holder) => String(field(holder, 'owner')));
}

/** What the replies of LOCK.INFO say about these keys. */
export function infoOf(replies: readonly { key: string; reply: unknown }[]): LockInfo {
  const info: LockInfo = { holders: [], waiting: 0, waiters: [] };
  for (const { key, reply } of replies) {
    info.waiting += Number(field(reply, 'waiting') ?? 0);
    for (const holder of list(reply, 'holders')) {
      const pttl = Number(field(holder, 'pttl'));
      info.holders.push({
        ...ownerIn(key, holder),
        holds: Number(field(holder, 'holds')),
        leftMs: pttl < 0 ? null : pttl,
        session: field(holder, 'session') != null,
      });
    }
    for (const waiter of list(reply, 'waiters')) {
      const left = field(waiter, 'left');
      info.waiters.push({
        ...ownerIn(key, waiter),
        fair: Number(field(waiter, 'fair')) === 1,
        waitedMs: Number(field(waiter, 'waited')),
        leftMs: left == null ? null : Number(left),
      });
    }
  }
  return info;
}

function ownerIn(key: string, entry: unknown) {
  return { key, owner: String(field(entry, 'owner')), mode: String(field(entry, 'mode')) };
}
