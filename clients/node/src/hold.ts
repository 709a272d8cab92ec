import type { Grant } from './acquisition.js';
import { firstKey, release, renew, watch, type Kind, type Spec } from './command.js';
import { ANSWER_MS, type Connections, type Line } from './connections.js';
import { isNotHeld, LockError, nameOfLock, NotHeld, typed, warn } from './errors.js';
import { after, Ending, now, Pauses } from './time.js';

/** How often a session's connection is used at least, in ms, so that the server's `timeout` does not close it. */
const PING_MS = 10_000;

/** How long a session tries to get a new connection, in ms: the default of the server's lock.session-grace. */
const GRACE_MS = 1_000;

/** The reason for the end of a hold's background work. There is only one object, because a stack trace is expensive. */
const ENDED = new LockError('released');

/** Releases the holds that the program has forgotten, and warns of them. */
const forgotten = new FinalizationRegistry<Keeper>((keeper) => keeper.forgotten());

/** The locks are not collected before their holds. */
const locksOf = new WeakMap<Hold, object>();

/**
 * A lock that is held. Its lease is renewed until it is released or lost. A hold does not keep the process alive, and
 * lasts at most for its lease after the process has ended. One that is garbage-collected is released, with a warning.
 */
export class Hold implements AsyncDisposable {
  readonly kind: Kind;
  /** The keys on the server. */
  readonly keys: readonly string[];
  /** The owner's name, `host:pid:random`, unique for each acquisition; for LOCK.GUARD, and in LOCK.INFO. */
  readonly owner: string;
  /** The fencing token: a number that only increases for this lock. Null if none was requested. */
  readonly token: number | null;
  /** How many permits of a semaphore; 1 for locks. */
  readonly permits: number;

  readonly #keeper: Keeper;
  #released = false;

  /** @internal */
  constructor(locks: object, keeper: Keeper) {
    const { spec, grant } = keeper;
    locksOf.set(this, locks);
    this.#keeper = keeper;
    this.kind = spec.kind;
    this.keys = spec.keys;
    this.owner = grant.owner;
    this.token = grant.token;
    this.permits = spec.permits;
    forgotten.register(this, keeper, this);
  }

  /**
   * Aborted when the lock is lost, once, with a NotHeld as the reason; never after an orderly release. From its first
   * use on the server notifies this hold of a loss, unless the option `watch` is false.
   */
  get signal(): AbortSignal {
    return this.#keeper.signal;
  }

  /** Whether the lock is known to be lost. */
  get isLost(): boolean {
    return this.#keeper.isLost;
  }

  /**
   * Releases the lock. After connection errors this is repeated for the rest of the lease. Rejects with NotHeld if the
   * lock was lost or released before, and with the library's error if the server could not be reached.
   */
  async release(): Promise<void> {
    if (this.#released) {
      throw this.#keeper.notHeld();
    }
    this.#released = true;
    forgotten.unregister(this);
    await this.#keeper.release();
  }

  /**
   * Releases the lock, unless release() was called. If the block fails too, its error is the `suppressed` of a
   * SuppressedError: see withLock.
   */
  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#released) {
      await this.release();
    }
  }
}

/** What keeps a hold: renewal, notifications, its connections. It knows nothing of the Hold, which can be collected. */
export class Keeper {
  readonly spec: Spec;
  readonly grant: Grant;
  readonly #connections: Connections;
  readonly #onEnd: (keeper: Keeper) => void;
  readonly #loss = new Ending();
  /** Ends the background work. */
  readonly #end = new Ending();
  readonly #watches = new Set<Line>();
  #watched = false;
  #line: Line | null;
  /** When the lease expires by the local clock, if it is not renewed. */
  #until = Infinity;
  #untilTimer: NodeJS.Timeout | undefined;
  #nextTimer: NodeJS.Timeout | undefined;
  #released: Promise<void> | undefined;

  /** `onEnd` is called when the hold was released or lost; it may be called twice after a loss. */
  constructor(connections: Connections, spec: Spec, grant: Grant, onEnd: (keeper: Keeper) => void) {
    this.#connections = connections;
    this.spec = spec;
    this.grant = grant;
    this.#onEnd = onEnd;
    this.#line = grant.line;
    this.#confirmed(grant.since);
    if (grant.line !== null && spec.session) {
      this.#liveOn(grant.line);
    } else {
      this.#renewIn(this.#until - now() - (spec.leaseMs * 2) / 3);
    }
  }

  get signal(): AbortSignal {
    if (!this.#watched && this.spec.watch !== false && !this.#end.isOver) {
      this.#watched = true;
      this.spec.keys.forEach((key) => void this.#watch(key));
    }
    return this.#loss.signal;
  }

  get isLost(): boolean {
    return this.#loss.isOver;
  }

  /** The error of a release after the hold has ended. */
  notHeld(): unknown {
    return this.isLost ? this.#loss.reason : new NotHeld(this.spec, 'it was released before');
  }

  /** The Hold was collected. */
  forgotten(): void {
    if (!this.#end.isOver) {
      warn(`${nameOfLock(this.spec)} was never released; it is released now`);
      this.release().catch(() => {});
    }
  }

  /** Releases what is held when the locks are closed. Never rejects. */
  close(): Promise<void> {
    return this.#released ?? this.release().catch(() => {});
  }

  /** Rejects with NotHeld if the hold was lost or released before. */
  release(): Promise<void> {
    if (this.#released !== undefined) {
      return Promise.reject(this.notHeld());
    }
    this.#released = this.#release();
    return this.#released;
  }

  async #release(): Promise<void> {
    const left = this.isLost ? 0 : Math.max(0, Math.min(this.#until - now(), this.spec.leaseMs));
    // The command is sent first, because waiters wait for it.
    const answer = this.#connections.insist(firstKey(this.spec), release(this.spec, this.grant.owner), left);
    this.#stop();
    const { error, again } = await answer;
    if (isNotHeld(error) && this.spec.kind === 'multi') {
      await this.#releaseEach();
    }
    this.#leave(error === undefined);
    if (this.isLost) {
      throw this.#loss.reason;
    }
    if (error !== undefined && !(isNotHeld(error) && again)) {
      throw typed(this.spec, error);
    }
  }

  /** One key of a multi-key lock was lost, so LOCK.MRELEASE released none: releases them one by one. */
  async #releaseEach(): Promise<void> {
    const one = (key: string) => this.#connections.insist(key, ['LOCK.RELEASE', key, this.grant.owner], ANSWER_MS);
    await Promise.all(this.spec.keys.map(one));
  }

  /** Ends renewal and watches: from here on no loss is reported. */
  #stop(): void {
    this.#end.end(ENDED);
    clearTimeout(this.#untilTimer);
    clearTimeout(this.#nextTimer);
  }

  /** Nothing is held any more. `answered`: the server has confirmed this, so it also replies to the watches. */
  #leave(answered: boolean): void {
    if (!answered) {
      this.#watches.forEach((line) => line.close());
    }
    if (this.#line !== null) {
      const line = this.#line;
      this.#line = null;
      answered ? this.#connections.giveBack(line) : line.close();
    }
    this.#onEnd(this);
  }

  #lose(why: string): void {
    if (this.#end.isOver) {
      return;
    }
    this.#stop();
    this.#watches.forEach((line) => line.close());
    this.#line?.close();
    this.#onEnd(this);
    this.#loss.end(new NotHeld(this.spec, why));
  }

  /** A new lease began at `since`. */
  #confirmed(since: number): void {
    this.#until = since + this.spec.leaseMs;
    clearTimeout(this.#untilTimer);
    this.#untilTimer = after(this.#until - now(), () => this.#lose('its lease expired'));
  }

  #renewIn(ms: number): void {
    if (this.spec.renew && !this.#end.isOver) {
      this.#nextTimer = after(ms, () => void this.#renew());
    }
  }

  /** One renewal of all keys, and the next one. */
  async #renew(): Promise<void> {
    const sent = now();
    const third = this.spec.leaseMs / 3;
    try {
      await Promise.all(this.spec.keys.map((key) => this.#renewKey(key)));
      if (!this.#end.isOver) {
        this.#confirmed(sent);
        this.#renewIn(sent + third - now());
      }
    } catch (error) {
      if (isNotHeld(error)) {
        this.#lose('the server reported its loss');
      }
      this.#renewIn(Math.min(500, third / 4));
    }
  }

  /** With replicas the command blocks, so it uses a connection of its own, at first the one of the grant. */
  async #renewKey(key: string): Promise<void> {
    const args = renew(this.spec, key, this.grant.owner);
    if (this.spec.replicas === undefined) {
      await this.#connections.command(key, args);
      return;
    }
    const kept = this.#line;
    this.#line = null;
    const line = kept?.closed === false ? kept : await this.#connections.take(key, this.#end);
    try {
      await line.send(args, this.spec.replicas.ms + ANSWER_MS);
    } catch (error) {
      this.#connections.learn(key, line, error);
      line.close();
      throw error;
    }
    if (this.#end.isOver || this.#line !== null) {
      this.#connections.giveBack(line);
    } else {
      this.#line = line;
    }
  }

  /** Keeps the session on this connection. */
  #liveOn(line: Line): void {
    this.#line = line;
    line.onClose(() => {
      if (this.#line === line) {
        void this.#rebind();
      }
    });
    this.#pingIn(line);
    if (line.closed) {
      void this.#rebind();
    }
  }

  /**
   * The server renews a session's lease. By the local clock, the lease is confirmed by each reply on the connection.
   */
  #pingIn(line: Line): void {
    const third = this.spec.leaseMs / 3;
    const ping = async () => {
      const sent = now();
      await line.send(['PING'], Math.min(ANSWER_MS, third));
      if (!this.#end.isOver) {
        this.#confirmed(sent);
        this.#pingIn(line);
      }
    };
    this.#nextTimer = this.#end.isOver ? undefined : after(Math.min(PING_MS, third), () => void ping().catch(() => line.close()));
  }

  /** The session's connection is lost: binds the session to another one, if the server has not ended it yet. */
  async #rebind(): Promise<void> {
    clearTimeout(this.#nextTimer);
    const until = Math.min(this.#until, now() + GRACE_MS);
    for (const pauses = new Pauses(true); !this.#end.isOver; ) {
      let line: Line | undefined;
      try {
        line = await this.#connections.take(firstKey(this.spec), this.#end);
        const sent = now();
        for (const key of this.spec.keys) {
          await line.send(renew(this.spec, key, this.grant.owner), ANSWER_MS);
        }
        if (this.#end.isOver) {
          line.close();
          return;
        }
        this.#confirmed(sent);
        this.#liveOn(line);
        return;
      } catch (error) {
        line?.close();
        if (line !== undefined) {
          this.#connections.learn(firstKey(this.spec), line, error);
        }
        if (isNotHeld(error) || now() >= until) {
          this.#lose('the connection of its session was lost');
          return;
        }
      }
      await pauses.wait(this.#end.signal).catch(() => {});
    }
  }

  /** Waits for the server's notification that the hold of `key` is lost, until the hold ends. */
  async #watch(key: string): Promise<void> {
    const pauses = new Pauses(true);
    while (!this.#end.isOver) {
      let line: Line | undefined;
      try {
        line = await this.#connections.take(key, this.#end);
        line.background = true;
        this.#watches.add(line);
        const { maxBlockMs } = this.#connections;
        const reply = await line.send(watch(key, this.grant.owner, maxBlockMs), maxBlockMs + ANSWER_MS);
        this.#watches.delete(line);
        this.#connections.giveBack(line);
        if (reply !== null) {
          this.#lose('the server reported its loss');
        }
        pauses.reset();
      } catch (error) {
        if (line !== undefined) {
          this.#watches.delete(line);
          this.#connections.learn(key, line, error);
          line.close();
        }
        await pauses.wait(this.#end.signal).catch(() => {});
      }
    }
  }
}
