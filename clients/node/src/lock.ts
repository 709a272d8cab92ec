import { Acquirable } from './acquirable.js';
import { acquireAll, partsOf, type Member, type Part } from './combined.js';
import { force, info } from './command.js';
import { infoOf, type LockInfo } from './info.js';

/** How many waiters of each key info() shows. */
const WAITERS = 10;

/** A lock that can be acquired, any number of times: each acquisition has an owner of its own. */
export class Lock extends Acquirable {
  /** What the lock consists of, for combine(). */
  static readonly #members = new WeakMap<Lock, Member>();
  /** In the order in which they are acquired. */
  readonly #parts: readonly Part[];

  /** @internal */
  constructor(member: Member) {
    const parts = partsOf(member);
    super((...wait) => acquireAll(member, parts, ...wait));
    this.#parts = parts;
    Lock.#members.set(this, member);
  }

  /** @internal See combine. */
  static combine(locks: readonly Lock[]): Lock {
    if (locks.length === 0) {
      throw new RangeError('locks must not be empty');
    }
    const members = locks.map((lock) => {
      const member = Lock.#members.get(lock);
      if (member === undefined) {
        throw new TypeError(`locks: ${String(lock)} is not a lock of Locks`);
      }
      return member;
    });
    const combined = new Lock({ kind: 'combined', members });
    combined.#parts.forEach(({ core, spec }, at) => {
      const before = combined.#parts.slice(0, at).filter((other) => other.core === core).flatMap((other) => other.spec.keys);
      const twice = spec.keys.find((key) => before.includes(key));
      if (twice !== undefined) {
        throw new TypeError(`locks: ${twice} is there twice`);
      }
    });
    return combined;
  }

  /**
   * Whether any owner holds one of the keys; of a semaphore, whether any permit is taken. As info() and force(), this
   * rejects with the library's error if there is no reply within 2 s.
   */
  async locked(): Promise<boolean> {
    return (await this.#info(0)).holders.length > 0;
  }

  /** Who holds the lock, and who waits for it. */
  info(): Promise<LockInfo> {
    return this.#info(WAITERS);
  }

  /**
   * Frees the lock, whoever holds it: a tool for operators. Its holder continues to work until it is notified of the loss.
   * Resolves to whether anything was held.
   */
  async force(): Promise<boolean> {
    const freed = await this.#each((key) => force(key), true);
    return freed.some(({ reply }) => Number(reply) > 0);
  }

  async #info(waiters: number): Promise<LockInfo> {
    return infoOf(await this.#each((key) => info(key, waiters)));
  }

  /** The replies to a command about each key. */
  #each(command: (key: string) => string[], once = false): Promise<{ key: string; reply: unknown }[]> {
    const ask = ({ core, spec }: Part) =>
      [...new Set(spec.keys)].map(async (key) => ({ key, reply: await core.request(spec, key, command(key), once) }));
    return Promise.all(this.#parts.flatMap(ask));
  }
}

/**
 * A lock that is held when all of these are: locks of any kind, also of several servers. They are acquired one after the
 * other, in one order for all programs: by the server's `host:port` in the client's configuration, a master's name at the
 * Sentinels, or the smallest `host:port` of a cluster's configured nodes; then by slot, by the smallest key, and by kind. A
 * cycle of waits across servers is not detected, but this order prevents it if all programs name the servers alike.
 */
export function combine(...locks: readonly Lock[]): Lock {
  return Lock.combine(locks);
}
