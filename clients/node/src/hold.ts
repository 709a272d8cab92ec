import type { Grant } from './acquisition.js';
import { firstKey, release, releaseOne, renew, watch, type Kind, type Spec } from './command.js';
import { REPLY_MS, type Connections, type Line } from './connections.js';
import { isNotHeld, isTransient, LockError, nameOfLock, NotHeld, ServerError, textOf, typed, warn } from './errors.js';
import { after, Ending, now, Pauses } from './time.js';

/**
 * How often a session's connection is used at least, in ms, so that the server's `timeout` does not close it; more often
 * with a shorter `maxBlockMs`, because only this shows that the connection is dead.
 */
const PING_MS = 10_000;

/** How long a session tries to get a new connection, in ms: the default of the server's lock.session-grace. */
const GRACE_MS = 1_000;

/** The reason for the end of a hold's background work. There is only one object, because a stack trace is expensive. */
const ENDED = new LockError('RELEASED', 'released');

/** Releases the holds that the program has forgotten, and warns of them. A Keeper keeps its Locks from being collected. */
const forgotten = new FinalizationRegistry<Keeper>((keeper) => keeper.forgotten());

/**
 * A lock that is held. Its lease is renewed until it is released or lost. A hold does not keep the process alive, and
 * lasts at most for its lease after the process has ended. One that is garbage-collected is released, with a warning,
 * unless its signal was used, or nothing renews it.
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
  constructor(keeper: Keeper) {
    const { spec, grant } = keeper;
    this.#keeper = keeper;
    this.kind = spec.kind;
    this.keys = spec.keys;
    this.owner = grant.owner;
    this.token = grant.token;
    this.permits = spec.permits;
    // The program waits for the grant, so all that can be done later is done later.
    setImmediate(() => keeper.begin(this));
  }

  /**
   * Aborted when the lock is lost, once, with a NotHeld as the reason; never after an orderly release. From its first
   * use on the server notifies this hold of a loss, unless the option `watch` is false, and the hold is not released
   * when it is garbage-collected. An error that a listener throws is an uncaught exception, as with any AbortSignal.
   */
  get signal(): AbortSignal {
    return this.#keeper.signalFor(this);
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

/** What keeps a hold: renewal, notifications, its connections. The Hold can be collected, unless its signal is used. */
export class Keeper {
  readonly spec: Spec;
  readonly grant: Grant;
  /** The locks are not collected before their holds. */
  readonly locks: object;
  readonly #connections: Connections;
  readonly #onEnd: (keeper: Keeper) => void;
  readonly #loss = new Ending();
  /** Ends the background work. */
  readonly #end = new Ending();
  readonly #watches = new Set<Line>();
  /** The hold whose signal is used: it is in use, even if nothing else refers to it. */
  #watched: Hold | undefined;
  #line: Line | null;
  /** When the lease expires by the local clock, if it is not renewed. */
  #until: number;
  /** When the next renewal is due. */
  #due = Infinity;
  #timer: NodeJS.Timeout | undefined;
  /** Why the last renewal failed; undefined if it did not. */
  #error: unknown;
  #released: Promise<void> | undefined;

  /** `onEnd` is called when the hold was released or lost; it may be called twice after a loss. */
  constructor(locks: object, connections: Connections, spec: Spec, grant: Grant, onEnd: (keeper: Keeper) => void) {
    this.locks = locks;
    this.#connections = connections;
    this.spec = spec;
    this.grant = grant;
    this.#onEnd = onEnd;
    this.#line = grant.line;
    this.#until = grant.since + spec.leaseMs;
  }

  /** Begins the background work. It does not refer to the hold. */
  begin(hold: Hold): void {
    if (this.#end.hasEnded) {
      return;
    }
    if (this.spec.renew || this.spec.session) {
      forgotten.register(hold, this, this);
    }
    this.#due = this.grant.exact ? this.#next(this.grant.since) : 0;
    this.spec.session && this.#line !== null ? this.#liveOn(this.#line) : this.#schedule();
  }

  signalFor(hold: Hold): AbortSignal {
    if (this.#watched === undefined && !this.isLost && !this.#end.hasEnded) {
      this.#watched = hold;
      if (this.spec.watch !== false) {
        this.spec.keys.forEach((key) => void this.#watch(key));
      }
    }
    return this.#loss.signal;
  }

  /** By the clock, too, because a timer is late when the event loop was blocked. */
  get isLost(): boolean {
    if (now() >= this.#until) {
      this.#lose('its lease expired', this.#error);
    }
    return this.#loss.hasEnded;
  }

  /** The error of a release after the hold has ended. */
  notHeld(): unknown {
    return this.isLost ? this.#loss.reason : new NotHeld(this.spec, 'it was released before');
  }

  /** The Hold was collected. */
  forgotten(): void {
    if (!this.#end.hasEnded) {
      warn(`${nameOfLock(this.spec)} was never released; it is released now`);
      this.release().catch(() => {});
    }
  }

  /** Releases what is held when the locks are closed. Never rejects. */
  close(): Promise<void> {
    return this.#released ?? this.release().catch(() => {});
  }

  /** Rejects with NotHeld if the hold was released or lost before; what is left of it then is released in the background. */
  release(): Promise<void> {
    if (this.#released !== undefined) {
      return Promise.reject(this.notHeld());
    }
    const lost = this.isLost;
    this.#released = this.#release();
    this.#released.catch(() => {});
    return lost ? Promise.reject(this.notHeld()) : this.#released;
  }

  async #release(): Promise<void> {
    const left = this.isLost ? 0 : Math.min(this.#until - now(), this.spec.leaseMs);
    // The command is sent first, because waiters wait for it.
    const result = this.#connections.insist(firstKey(this.spec), release(this.spec, this.grant.owner), left);
    this.#stop();
    const { error, again } = await result;
    if (isNotHeld(error) && this.spec.kind === 'multi') {
      await this.#releaseEach();
    }
    this.#leave(error === undefined);
    if (this.isLost) {
      throw this.#loss.reason;
    }
    if (error !== undefined && !(isNotHeld(error) && again && now() < this.#until)) {
      throw typed(this.spec, error);
    }
  }

  /** One key of a multi-key lock was lost, so LOCK.MRELEASE released none: releases them one by one. */
  async #releaseEach(): Promise<void> {
    const { spec, grant } = this;
    await Promise.all(spec.keys.map((key, at) => this.#connections.insist(key, releaseOne(spec, at, grant.owner), REPLY_MS)));
  }

  /** Ends renewal and watches: from here on no loss is reported. */
  #stop(): void {
    this.#end.end(ENDED);
    this.#watched = undefined;
    clearTimeout(this.#timer);
    forgotten.unregister(this);
  }

  /** Nothing is held any more. `replied`: the server has confirmed this, so it also replies to the watches. */
  #leave(replied: boolean): void {
    if (!replied) {
      this.#watches.forEach((line) => line.close());
    }
    if (this.#line !== null) {
      const line = this.#line;
      this.#line = null;
      line.onClose.delete(this.#rebind);
      replied ? this.#connections.giveBack(line) : line.close();
    }
    this.#onEnd(this);
  }

  #lose(why: string, error?: unknown): void {
    if (this.#end.hasEnded) {
      return;
    }
    this.#stop();
    this.#watches.forEach((line) => line.close());
    this.#line?.close();
    this.#onEnd(this);
    this.#loss.end(new NotHeld(this.spec, why, error === undefined ? {} : { cause: typed(this.spec, error) }));
  }

  /** When a lease that began at `since` is renewed. The server renews that of a session, as long as it is connected. */
  #next(since: number): number {
    const { session, renew, leaseMs } = this.spec;
    const pingMs = session ? Math.min(PING_MS, this.#connections.maxBlockMs) : Infinity;
    return session || renew ? since + Math.min(pingMs, leaseMs / 3) : Infinity;
  }

  /** A new lease began at `since`. */
  #confirmed(since: number): void {
    this.#error = undefined;
    this.#until = since + this.spec.leaseMs;
    this.#due = this.#next(since);
    this.#schedule();
  }

  /** Sets the timer for the next renewal or the end of the lease, whichever comes first. */
  #schedule(): void {
    clearTimeout(this.#timer);
    if (!this.#end.hasEnded) {
      this.#timer = after(Math.min(this.#due, this.#until) - now(), () => this.#tick());
    }
  }

  /** A timer may be early by 1 ms. */
  #tick(): void {
    if (now() >= this.#until - 1) {
      this.#lose('its lease expired', this.#error);
    } else if (now() >= this.#due - 1) {
      this.#due = Infinity;
      void (this.#line !== null && this.spec.session ? this.#ping(this.#line) : this.#renew());
    }
    this.#schedule();
  }

  /** One renewal, and the next one. */
  async #renew(): Promise<void> {
    const sent = now();
    try {
      await this.#sendRenewal(renew(this.spec, this.grant.owner));
      this.#confirmed(sent);
    } catch (error) {
      if (isNotHeld(error)) {
        this.#lose('the server reported its loss');
      }
      this.#error = error;
      this.#due = now() + Math.min(500, this.spec.leaseMs / 12);
      this.#schedule();
    }
  }

  /** With replicas the command blocks, so it uses a connection of its own, at first the one of the grant. */
  async #sendRenewal(args: string[]): Promise<void> {
    const key = firstKey(this.spec);
    if (this.spec.replicas === undefined) {
      await this.#connections.command(key, args);
      return;
    }
    const kept = this.#line;
    this.#line = null;
    const line = kept?.closed === false ? kept : await this.#connections.take(key, this.#end);
    try {
      await line.send(args, this.spec.replicas.ms + REPLY_MS);
    } catch (error) {
      this.#connections.failed(key, line, error);
      throw error;
    }
    if (this.#end.hasEnded || this.#line !== null) {
      this.#connections.giveBack(line);
    } else {
      this.#line = line;
    }
  }

  /** Keeps the session on this connection. */
  #liveOn(line: Line): void {
    this.#line = line;
    line.onClose.add(this.#rebind);
    line.closed ? void this.#rebind() : this.#schedule();
  }

  /** By the local clock, the lease of a session is confirmed by each reply on its connection. */
  async #ping(line: Line): Promise<void> {
    const sent = now();
    const replied = await line.send(['PING'], Math.min(REPLY_MS, this.spec.leaseMs / 3)).then(
      () => true,
      (error: unknown) => error instanceof ServerError, // it shows, too, that the connection lives
    );
    replied ? this.#confirmed(sent) : line.close();
  }

  /** The session's connection is lost: binds the session to another one, if the server has not ended it yet. */
  readonly #rebind = async (): Promise<void> => {
    this.#due = Infinity;
    this.#line = null;
    const until = Math.min(this.#until, now() + GRACE_MS);
    for (const pauses = new Pauses(0); !this.#end.hasEnded; ) {
      let line: Line | undefined;
      try {
        line = await this.#connections.take(firstKey(this.spec), this.#end);
        const sent = now();
        const replyMs = REPLY_MS + (this.spec.replicas?.ms ?? 0);
        await line.send(renew(this.spec, this.grant.owner), replyMs);
        if (this.#end.hasEnded) {
          line.close();
          return;
        }
        this.#confirmed(sent);
        this.#liveOn(line);
        return;
      } catch (error) {
        line?.close();
        if (line !== undefined) {
          this.#connections.failed(firstKey(this.spec), line, error);
        }
        if (isNotHeld(error) || now() >= until) {
          this.#lose('the connection of its session was lost', error);
          return;
        }
      }
      await pauses.wait(this.#end.signal).catch(() => {});
    }
  };

  /** Waits for the server's notification that the hold of `key` is lost, until the hold ends. */
  async #watch(key: string): Promise<void> {
    const pauses = new Pauses(0);
    while (!this.#end.hasEnded) {
      let line: Line | undefined;
      try {
        line = await this.#connections.take(key, this.#end);
        line.background = true;
        this.#watches.add(line);
        const { maxBlockMs } = this.#connections;
        const reply = await line.send(watch(key, this.grant.owner, maxBlockMs), maxBlockMs + REPLY_MS);
        this.#watches.delete(line);
        this.#connections.giveBack(line);
        if (reply !== null) {
          this.#lose('the server reported its loss');
        }
        pauses.reset();
      } catch (error) {
        if (line !== undefined) {
          this.#watches.delete(line);
          this.#connections.failed(key, line, error);
        }
        if (!isTransient(error)) {
          this.#end.hasEnded || warn(`${nameOfLock(this.spec)}: only a renewal will notice its loss (${textOf(error)})`);
          return;
        }
        await pauses.wait(this.#end.signal).catch(() => {});
      }
    }
  }
}
