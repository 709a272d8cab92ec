import { Acquisition } from './acquisition.js';
import { specOf, type Kind, type LockOptions, type Spec } from './command.js';
import { Connections, type Settings } from './connections.js';
import type { Connector } from './connector.js';
import { Closed, NotAcquired } from './errors.js';
import { Hold } from './hold.js';
import { atMost } from './time.js';

/** How long close() waits for its releases, in ms. */
const CLOSING_MS = 2_000;

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
  /** The kind of lock; by default `lock`, and `multi` for several keys. */
  kind?: Exclude<Kind, 'semaphore'>;
}

/** A lock that can be acquired, any number of times: each acquisition has an owner of its own. */
export class Lock {
  readonly #acquire: (spec: Spec, wait: WaitOptions) => Promise<Hold>;
  readonly #spec: Spec;

  /** @internal */
  constructor(acquire: (spec: Spec, wait: WaitOptions) => Promise<Hold>, spec: Spec) {
    this.#acquire = acquire;
    this.#spec = spec;
  }

  /**
   * Waits for the lock. Rejects with NotAcquired if it could not be acquired in time, with the signal's reason when
   * that is aborted, with Deadlock, NoReplicas, Refused, or with the library's error if the server cannot be reached.
   * The caller must release the hold.
   */
  acquire(wait: WaitOptions = {}): Promise<Hold> {
    return this.#acquire(this.#spec, wait);
  }

  /** The same as acquire() with `waitMs: 0`, but null if another owner holds the lock. */
  async tryAcquire(wait: Pick<WaitOptions, 'signal'> = {}): Promise<Hold | null> {
    return this.acquire({ ...wait, waitMs: 0 }).catch((error: unknown) => {
      if (error instanceof NotAcquired) {
        return null;
      }
      throw error;
    });
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
      await hold.release().catch(() => {});
      throw error;
    }
    await hold.release();
    return result;
  }
}

/** The locks of one client. They use the client's settings, but connections of their own. */
export class Locks implements AsyncDisposable {
  readonly #connector: Connector;
  readonly #connections: Connections;
  readonly #requests = new Set<Acquisition>();
  readonly #holds = new Set<Hold>();
  readonly #background = new Set<Promise<void>>();
  #closed: Promise<void> | undefined;

  /** For adapters; users call `locks` of `lock-so/ioredis` or `lock-so/node-redis`. */
  constructor(connector: Connector, settings?: Settings) {
    this.#connector = connector;
    this.#connections = new Connections(connector, settings);
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

  /** A multi-key lock: all of these keys, or none. In a cluster they must share a slot. */
  multi(keys: readonly string[], options: LockOptions = {}): Lock {
    return this.#make('multi', [...keys], options);
  }

  /** `options.permits` permits of a semaphore, of which all owners together hold at most `limit`. */
  semaphore(key: string, limit: number, options: LockOptions = {}): Lock {
    return this.#make('semaphore', [key], options, limit);
  }

  /** Runs `body` under a lock: see Lock.run. */
  withLock<T>(key: string | readonly string[], body: (hold: Hold) => Promise<T> | T, options: WithLockOptions = {}): Promise<T> {
    const { kind, waitMs, signal, ...rest } = options;
    const keys = typeof key === 'string' ? [key] : [...key];
    return this.#make(kind ?? (keys.length > 1 ? 'multi' : 'lock'), keys, rest).run(body, { waitMs, signal });
  }

  /** True after close(). */
  get isClosed(): boolean {
    return this.#closed !== undefined;
  }

  /** Gives up all waits, releases all holds, and closes all connections, within 2 s. Never rejects. */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(): Promise<void> {
    for (const request of this.#requests) {
      request.abort(new Closed('the locks of this client are closed'));
    }
    const work = [...this.#background, ...[...this.#holds].map((hold) => hold.release())];
    // By the next iteration of the event loop, the requests that were given up have added their work.
    await new Promise(setImmediate);
    await atMost(CLOSING_MS, Promise.allSettled([...work, ...this.#background]));
    this.#connections.close();
  }

  #make(kind: Kind, keys: string[], options: LockOptions, limit?: number): Lock {
    const named = keys.map((key) => this.#connector.prefix + key);
    return new Lock((spec, wait) => this.#acquire(spec, wait), specOf(kind, named, options, limit));
  }

  async #acquire(spec: Spec, { waitMs = Infinity, signal }: WaitOptions): Promise<Hold> {
    if (this.isClosed) {
      throw new Closed('the locks of this client are closed');
    }
    signal?.throwIfAborted();
    const request = new Acquisition(this.#connections, spec, (work) => this.#keepInView(work));
    const abort = () => request.abort(signal?.reason);
    signal?.addEventListener('abort', abort);
    this.#requests.add(request);
    try {
      return await this.#granted(spec, request, waitMs);
    } finally {
      signal?.removeEventListener('abort', abort);
      this.#requests.delete(request);
    }
  }

  async #granted(spec: Spec, request: Acquisition, waitMs: number): Promise<Hold> {
    const grant = await request.run(waitMs);
    const hold = new Hold(this.#connections, spec, grant, (ended) => this.#holds.delete(ended));
    this.#holds.add(hold);
    if (request.stop.isOver) {
      await hold.release().catch(() => {});
      throw request.stop.reason;
    }
    return hold;
  }

  #keepInView(work: Promise<void>): void {
    this.#background.add(work);
    void work.finally(() => this.#background.delete(work));
  }
}
