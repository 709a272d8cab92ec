import { WAIT_OPTIONS, type WaitOptions } from './acquirable.js';
import { memberOf } from './combined.js';
import { checkOptions, LOCK_OPTIONS, multiKeysOf, specOf, type Names } from './command.js';
import type { Kind, LockOptions, Mode, MultiKeys, SemaphoreOptions } from './command.js';
import type { Settings } from './connections.js';
import type { Connector } from './connector.js';
import { Core } from './core.js';
import type { Hold } from './hold.js';
import { Latch } from './latch.js';
import { Lock } from './lock.js';
import { DelayedQueue } from './queue.js';

/** The options of withLock. */
export interface WithLockOptions extends LockOptions, WaitOptions {
  /** The kind of lock; by default `lock`, and `multi` for a list of keys, which can have no other. */
  kind?: Exclude<Kind, 'semaphore'> | undefined;
}

const WITH_LOCK_OPTIONS: Names<WithLockOptions> = { ...LOCK_OPTIONS, ...WAIT_OPTIONS, kind: true };

/** The arguments of withLock. `options.kind` of a list of keys can only be `multi`. */
export type WithLock<T> = [keys: string | MultiKeys, body: (hold: Hold) => Promise<T> | T, options?: WithLockOptions];

/** The locks of one client. They use the client's settings, but connections of their own. */
export class Locks implements AsyncDisposable {
  readonly #core: Core;

  /** @internal For adapters; users call `locks` of `lock-so/ioredis` or `lock-so/node-redis`. */
  constructor(connector: Connector, settings?: Settings) {
    this.#core = new Core(connector, settings);
  }

  /** @internal */
  get core(): Core {
    return this.#core;
  }

  /** @internal Throws for settings that differ from those of these locks. */
  checkSettings(settings: Settings = {}): void {
    const { connections } = this.#core;
    for (const name of ['maxBlockMs', 'connectTimeoutMs'] as const) {
      if ((settings[name] ?? connections[name]) !== connections[name]) {
        throw new TypeError(`${name}: the locks of this client have ${connections[name]}, not ${settings[name]}`);
      }
    }
  }

  /** One holder at a time. */
  lock(key: string, options: LockOptions = {}): Lock {
    return this.#make('lock', [key], options);
  }

  /** One holder at a time, strictly first come, first served; a waiter keeps its place when its connection is lost. */
  fair(key: string, options: LockOptions = {}): Lock {
    return this.#make('fair', [key], options);
  }

  /** The read lock of a read-write lock, shared with other readers. */
  read(key: string, options: LockOptions = {}): Lock {
    return this.#make('read', [key], options);
  }

  /** The write lock of a read-write lock, held alone. */
  write(key: string, options: LockOptions = {}): Lock {
    return this.#make('write', [key], options);
  }

  /**
   * A multi-key lock: all of these keys, or none. With `{ read, write }` they are read-write locks. In a cluster the keys
   * of several slots are acquired one slot after the other, in the order of the slots, as by combine().
   */
  multi(keys: MultiKeys, options: LockOptions = {}): Lock {
    const { keys: all, modes } = multiKeysOf(keys);
    return this.#make('multi', all, options, 1, modes);
  }

  /** `options.permits` permits of a semaphore, of which all owners together hold at most `limit`. */
  semaphore(key: string, limit: number, options: SemaphoreOptions = {}): Lock {
    return this.#make('semaphore', [key], options, limit);
  }

  /** A latch: any number of clients wait until it has been counted down. */
  latch(key: string): Latch {
    return new Latch(this.#core, key);
  }

  /** A delayed queue: the server pushes values to this list when their delay has passed. */
  delayedQueue(list: string): DelayedQueue {
    return new DelayedQueue(this.#core, list);
  }

  /** Runs `body` under a lock: see Lock.run. */
  withLock<T>(...[key, body, options = {}]: WithLock<T>): Promise<T> {
    checkOptions(options, WITH_LOCK_OPTIONS);
    const { kind = typeof key === 'string' ? 'lock' : 'multi', waitMs, signal, ...rest } = options;
    const { keys, modes } = multiKeysOf(typeof key === 'string' ? [key] : key);
    return this.#make(kind, keys, rest, 1, modes).run(body, { waitMs, signal });
  }

  /** True after close(). */
  get isClosed(): boolean {
    return this.#core.isClosed;
  }

  /**
   * Gives up all waits, releases all holds, and closes all connections, within `timeoutMs`, 2 s by default. Rejects only
   * for invalid options.
   */
  async close(options: { timeoutMs?: number } = {}): Promise<void> {
    checkOptions(options, { timeoutMs: true });
    await this.#core.close(options.timeoutMs ?? 2_000);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #make(kind: Kind, keys: readonly string[], options: SemaphoreOptions, limit = 1, modes?: Mode[]): Lock {
    return new Lock(memberOf(this.#core, specOf(kind, keys, options, limit, this.#core.connector.prefix, modes)));
  }
}
