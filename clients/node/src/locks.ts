import { Acquisition } from './acquisition.js';
import { multiKeysOf, specOf, type Kind, type LockOptions, type Mode, type MultiKeys, type SemaphoreOptions, type Spec } from './command.js';
import { Connections, type Settings } from './connections.js';
import type { Connector } from './connector.js';
import { Closed, NotAcquired } from './errors.js';
import { Hold, Keeper } from './hold.js';
import { atMost, onAbort } from './time.js';

/** Closes the connections of locks that are collected. */
const collected = new FinalizationRegistry<Connections>((connections) => connections.close());

/** How long an aborted wait lasts at most while what it has acquired is released, in ms. */
const RELEASING_MS = 2_000;

/** How one acquisition waits. */
export interface WaitOptions {
  /** How long to wait at most, in ms; 0: only try. Without it there is no limit. */
  waitMs?: number | undefined;
  /**
   * Gives the wait up when it is aborted; nothing is left behind on the server. It does not affect a lock that is held.
   */
  signal?: AbortSignal | undefined;
}

/** The options of withLock. */
export interface WithLockOptions extends LockOptions, WaitOptions {
  /** The kind of lock; by default `lock`, and `multi` for a list of keys, which can have no other. */
  kind?: Exclude<Kind, 'semaphore'> | undefined;
}

/** The arguments of withLock. */
export type WithLock<T> =
  | [key: string, body: (hold: Hold) => Promise<T> | T, options?: WithLockOptions]
  | [keys: MultiKeys, body: (hold: Hold) => Promise<T> | T, options?: WithLockOptions & { kind?: 'multi' | undefined }];

/** `named`: the error of a wait that has timed out names the holders. */
type Acquire = (wait: WaitOptions, named: boolean) => Promise<Hold>;

/** A lock that can be acquired, any number of times: each acquisition has an owner of its own. */
export class Lock {
  readonly #acquire: Acquire;

  /** @internal */
  constructor(acquire: Acquire) {
    this.#acquire = acquire;
  }

  /**
   * Waits for the lock. Rejects with NotAcquired if it could not be acquired in time, with the signal's reason when
   * that is aborted, with Deadlock, NoReplicas, Refused, or with the library's error if no connection was ever
   * established. The caller must release the hold.
   */
  acquire(wait: WaitOptions = {}): Promise<Hold> {
    return this.#acquire(wait, true);
  }

  /**
   * The same as acquire() with `waitMs: 0`, but null if another owner holds the lock. If the server cannot be reached,
   * this rejects with the library's error.
   */
  async tryAcquire(wait: Pick<WaitOptions, 'signal'> = {}): Promise<Hold | null> {
    try {
      return await this.#acquire({ ...wait, waitMs: 0 }, false);
    } catch (error) {
      if (error instanceof NotAcquired) {
        return null;
      }
      throw error;
    }
  }

  /**
   * Runs `body` while the lock is held, and resolves to what it returns. Rejects as acquire() does; with the body's own
   * error if it fails, whether or not the lock was lost; and with NotHeld if the lock was lost while the body ran.
   * `hold.signal` notifies the body of a loss.
   */
  async run<T>(body: (hold: Hold) => Promise<T> | T, wait: WaitOptions = {}): Promise<T> {
    const hold = await this.acquire(wait);
    let result: T;
    try {
      result = await body(hold);
    } catch (error) {
      await hold[Symbol.asyncDispose]().catch(() => {});
      throw error;
    }
    await hold[Symbol.asyncDispose]();
    return result;
  }
}

/** The locks of one client. They use the client's settings, but connections of their own. */
export class Locks implements AsyncDisposable {
  readonly #connector: Connector;
  readonly #connections: Connections;
  readonly #requests = new Set<Acquisition>();
  readonly #holds = new Set<Keeper>();
  readonly #background = new Set<Promise<void>>();
  #closed: Promise<void> | undefined;

  /** @internal For adapters; users call `locks` of `lock-so/ioredis` or `lock-so/node-redis`. */
  constructor(connector: Connector, settings?: Settings) {
    this.#connector = connector;
    this.#connections = new Connections(connector, settings);
    collected.register(this, this.#connections);
  }

  /** @internal Throws for settings that differ from those of these locks. */
  checkSettings(settings: Settings = {}): void {
    for (const name of ['maxBlockMs', 'connectTimeoutMs'] as const) {
      if ((settings[name] ?? this.#connections[name]) !== this.#connections[name]) {
        throw new TypeError(`${name}: the locks of this client have ${this.#connections[name]}, not ${settings[name]}`);
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
   * A multi-key lock: all of these keys, or none. With `{ read, write }` they are read-write locks. In a cluster they
   * must share a slot.
   */
  multi(keys: MultiKeys, options: LockOptions = {}): Lock {
    const { keys: all, modes } = multiKeysOf(keys);
    return this.#make('multi', all, options, 1, modes);
  }

  /** `options.permits` permits of a semaphore, of which all owners together hold at most `limit`. */
  semaphore(key: string, limit: number, options: SemaphoreOptions = {}): Lock {
    return this.#make('semaphore', [key], options, limit);
  }

  /** Runs `body` under a lock: see Lock.run. */
  withLock<T>(...[key, body, options = {}]: WithLock<T>): Promise<T> {
    const { kind = typeof key === 'string' ? 'lock' : 'multi', waitMs, signal, ...rest } = options;
    const { keys, modes } = multiKeysOf(typeof key === 'string' ? [key] : key);
    return this.#make(kind, keys, rest, 1, modes).run(body, { waitMs, signal });
  }

  /** True after close(). */
  get isClosed(): boolean {
    return this.#closed !== undefined;
  }

  /**
   * Gives up all waits, releases all holds, and closes all connections, within `timeoutMs`, 2 s by default. Never
   * rejects.
   */
  close({ timeoutMs = 2_000 }: { timeoutMs?: number } = {}): Promise<void> {
    this.#closed ??= this.#close(timeoutMs);
    return this.#closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(timeoutMs: number): Promise<void> {
    for (const request of this.#requests) {
      request.abort(new Closed());
    }
    const work = [...this.#background, ...[...this.#holds].map((keeper) => keeper.close())];
    // By the next iteration of the event loop, the requests that were given up have added their work or their holds.
    await new Promise(setImmediate);
    work.push(...this.#background, ...[...this.#holds].map((keeper) => keeper.close()));
    await atMost(timeoutMs, Promise.allSettled(work));
    this.#connections.close();
  }

  #make(kind: Kind, keys: readonly string[], options: SemaphoreOptions, limit = 1, modes?: Mode[]): Lock {
    const spec = specOf(kind, keys, options, limit, this.#connector.prefix, modes);
    return new Lock((wait, named) => this.#acquire(spec, wait, named));
  }

  async #acquire(spec: Spec, { waitMs = Infinity, signal }: WaitOptions, named: boolean): Promise<Hold> {
    if (typeof waitMs !== 'number' || !(waitMs >= 0)) {
      throw new RangeError(`waitMs must not be negative, not ${String(waitMs)}`);
    }
    if (this.isClosed) {
      throw new Closed();
    }
    signal?.throwIfAborted();
    const request = new Acquisition(this.#connections, spec, (work) => this.#keepInView(work));
    const ignore = signal === undefined ? undefined : onAbort(signal, () => request.abort(signal.reason));
    this.#requests.add(request);
    try {
      const grant = await request.run(waitMs, named);
      const holds = this.#holds;
      const keeper = new Keeper(this, this.#connections, spec, grant, (ended) => holds.delete(ended));
      holds.add(keeper);
      if (request.aborted) {
        await atMost(RELEASING_MS, keeper.release());
        throw request.stop.reason;
      }
      return new Hold(keeper);
    } finally {
      ignore?.();
      this.#requests.delete(request);
    }
  }

  #keepInView(work: Promise<void>): void {
    this.#background.add(work);
    void work.finally(() => this.#background.delete(work));
  }
}
