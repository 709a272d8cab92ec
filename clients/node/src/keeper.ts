import type { Grant } from './acquisition.js';
import { checkPositive, firstKey, guard, release, releaseOne, renew, watch, type Kind, type Spec } from './command.js';
import { REPLY_MS, type Connections, type Line } from './connections.js';
import type { Core } from './core.js';
import { isNotHeld, isTransient, LockError, nameOfSubject, NotHeld, ServerError, textOf, typed, warn } from './errors.js';
import type { Hold, Holding } from './hold.js';
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

/** What keeps the hold of one lock: renewal, notifications, its connections. */
export class Keeper implements Holding {
  readonly spec: Spec;
  readonly grant: Grant;
  readonly core: Core;
  readonly #connections: Connections;
  readonly #onEnd: (keeper: Keeper) => void;
  readonly #loss = new Ending();
  /** Ends the background work. */
  readonly #end = new Ending();
  readonly #watches = new Set<Line>();
  /** The hold whose signal is used: it is in use, even if nothing else refers to it. */
  #watched: Hold | undefined;
  #watching = false;
  #line: Line | null;
  /** When the lease expires by the local clock, if it is not renewed. */
  #until: number;
  /** The lease that is requested by renewals, and which the server may have granted. */
  #leaseMs: number;
  /** When the next renewal is due. */
  #due = Infinity;
  #timer: NodeJS.Timeout | undefined;
  /** Settles when the last renewal by the program has. */
  #turn: Promise<void> = Promise.resolve();
  /** How many renewals were requested. Only the last one says how long the lease lasts. */
  #renewals = 0;
  /** Ends when it was released because its Locks were closed. */
  readonly closed = new Ending();
  #begun = false;
  /** How often the lock was acquired and entered, without the releases. */
  #entries = 1;
  /** Why the last renewal failed; undefined if it did not. */
  #error: unknown;
  #released: Promise<void> | undefined;

  /** `onEnd` is called when the hold was released or lost; it may be called twice after a loss. */
  constructor(core: Core, spec: Spec, grant: Grant, onEnd: (keeper: Keeper) => void) {
    this.core = core;
    this.#connections = core.connections;
    this.spec = spec;
    this.grant = grant;
    this.#onEnd = onEnd;
    this.#line = grant.line;
    this.#leaseMs = spec.leaseMs;
    this.#until = grant.since + spec.leaseMs;
  }

  get kind(): Kind {
    return this.spec.kind;
  }

  get keys(): readonly string[] {
    return this.spec.keys;
  }

  get owner(): string {
    return this.grant.owner;
  }

  get token(): number | null {
    return this.grant.token;
  }

  get permits(): number {
    return this.spec.permits;
  }

  get members(): readonly Holding[] {
    return [];
  }

  get keepers(): readonly Keeper[] {
    return [this];
  }

  get isKept(): boolean {
    return !this.#end.hasEnded && (this.spec.renew || this.spec.session === true);
  }

  /** It is held by the program: it was not released, but it may be lost. */
  get isEntered(): boolean {
    return this.#released === undefined;
  }

  /** The program, which holds the lock, acquires it again. */
  enter({ fenced }: Spec): this {
    if (fenced && this.grant.token === null) {
      throw new TypeError('fenced: the lock that is entered again was acquired without it');
    }
    if (this.isLost) {
      throw this.notHeld();
    }
    this.#entries++;
    return this;
  }

  begin(): void {
    if (this.#end.hasEnded || this.#begun) {
      return;
    }
    this.#begun = true;
    this.#due = this.grant.exact ? this.#next(this.grant.since) : 0;
    this.spec.session && this.#line !== null ? this.#liveOn(this.#line) : this.#schedule();
  }

  signalFor(hold: Hold): AbortSignal {
    if (!this.#end.hasEnded) {
      this.#watched ??= hold;
    }
    return this.watch();
  }

  /** Aborted when the hold is lost; from the first call on the server notifies it. */
  watch(): AbortSignal {
    if (!this.#watching && !this.isLost && !this.#end.hasEnded) {
      this.#watching = true;
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

  notHeld(): unknown {
    return this.isLost ? this.#loss.reason : new NotHeld(this.spec, 'it was released before');
  }

  forgotten(): void {
    if (!this.#end.hasEnded) {
      warn(`${nameOfSubject(this.spec)} was never released; it is released now`);
      this.release().catch(() => {});
    }
  }

  /** Releases what is held when the locks are closed. Never rejects. */
  close(): Promise<void> {
    if (this.#released !== undefined) {
      return this.#released.catch(() => {});
    }
    this.#entries = 1;
    const released = this.release().catch(() => {});
    this.closed.end(new NotHeld(this.spec, 'its Locks were closed'));
    return released;
  }

  /** What is left of a hold that is lost is released in the background. */
  release(): Promise<void> {
    if (this.#released !== undefined) {
      return Promise.reject(this.notHeld());
    }
    const lost = this.isLost;
    if (--this.#entries > 0) {
      return lost ? Promise.reject(this.notHeld()) : Promise.resolve();
    }
    this.#released = this.#release();
    this.#released.catch(() => {});
    return lost ? Promise.reject(this.notHeld()) : this.#released;
  }

  async #release(): Promise<void> {
    const left = this.isLost ? 0 : Math.min(this.#until - now(), this.#leaseMs);
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
    const { session, renew } = this.spec;
    const pingMs = session ? Math.min(PING_MS, this.#connections.maxBlockMs) : Infinity;
    return session || renew ? since + Math.min(pingMs, this.#leaseMs / 3) : Infinity;
  }

  /** A new lease began at `since`. */
  #confirmed(since: number): void {
    this.#error = undefined;
    this.#until = since + this.#leaseMs;
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
    const send = (args: string[]) => this.#connections.command(firstKey(this.spec), args);
    await this.#ask(() => this.#request(this.#leaseMs, true, send)).catch(() => {});
  }

  /** One after the other: none overtakes another, and each keeps the lease of the one before it. */
  renew(leaseMs?: number): Promise<void> {
    const renewal = this.#turn.then(() => this.#ask(() => this.#renewNow(leaseMs)));
    this.#turn = renewal.catch(() => {});
    return renewal;
  }

  async #renewNow(leaseMs?: number): Promise<void> {
    if (leaseMs !== undefined) {
      this.checkHasLease();
      checkPositive('leaseMs', leaseMs);
    }
    const send = (args: string[]) => this.#connections.request(firstKey(this.spec), args, false);
    await (this.spec.session ? this.#renewSession() : this.#request(leaseMs ?? this.#leaseMs, this.spec.renew, send));
  }

  checkHasLease(): void {
    if (this.spec.session) {
      throw new TypeError('leaseMs: a session has no lease');
    }
  }

  guard(command: readonly string[]): Promise<unknown> {
    const args = guard(this.spec, this.owner, command);
    return this.#ask(() => this.#connections.request(firstKey(this.spec), args, true));
  }

  /** Rejects with the error for the user, see typed; the reply NOTHELD means that the hold is lost. */
  async #ask<Reply>(request: () => Promise<Reply>): Promise<Reply> {
    this.core.checkOpen(this.spec);
    if (this.#end.hasEnded) {
      throw this.notHeld();
    }
    try {
      return await request();
    } catch (error) {
      if (isNotHeld(error)) {
        this.#lose('the server reported its loss');
        throw this.notHeld();
      }
      throw typed(this.spec, error);
    }
  }

  /** Requests a lease; `repeats`: again soon after an error. */
  async #request(leaseMs: number, repeats: boolean, send: (args: string[]) => Promise<unknown>): Promise<void> {
    const sent = now();
    const renewal = ++this.#renewals;
    this.#due = Infinity;
    if (leaseMs < this.#leaseMs) {
      // It counts from here on, because the server may grant it and the reply may get lost.
      this.#leaseMs = leaseMs;
      this.#until = Math.min(this.#until, sent + leaseMs);
    }
    this.#schedule();
    try {
      await this.#sendRenewal(renew(this.spec, this.grant.owner, leaseMs), send);
      if (renewal === this.#renewals) {
        this.#leaseMs = leaseMs;
        this.#confirmed(sent);
      }
    } catch (error) {
      if (renewal === this.#renewals) {
        this.#error = error;
        this.#due = repeats ? now() + Math.min(500, this.#leaseMs / 12) : Infinity;
        this.#schedule();
      }
      throw error;
    }
  }

  /** The connection that a session is bound to binds it again; no other one may. */
  async #renewSession(): Promise<void> {
    if (this.#line === null) {
      throw this.#connections.timeoutError('connection to', 0);
    }
    await this.#line.send(renew(this.spec, this.grant.owner), REPLY_MS + (this.spec.replicas?.ms ?? 0));
  }

  /** With replicas the command blocks, so it uses a connection of its own, at first the one of the grant. */
  async #sendRenewal(args: string[], send: (args: string[]) => Promise<unknown>): Promise<void> {
    const key = firstKey(this.spec);
    if (this.spec.replicas === undefined) {
      await send(args);
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
          this.#end.hasEnded || warn(`${nameOfSubject(this.spec)}: only a renewal will notice its loss (${textOf(error)})`);
          return;
        }
        await pauses.wait(this.#end.signal).catch(() => {});
      }
    }
  }
}
