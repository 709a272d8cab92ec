import type { Grant } from './acquisition.js';
import { firstKey, release, renew, watch, type Kind, type Spec } from './command.js';
import { ANSWER_MS, type Connections, type Line } from './connections.js';
import { isNotHeld, NotHeld, typed } from './errors.js';
import { after, Ending, now, Pauses } from './time.js';

/** How often a session's connection is used at least, in ms, so that the server's `timeout` spares it. */
const PING_MS = 10_000;

/** How long a session looks for a new connection, in ms: the server's lock.session-grace by default. */
const GRACE_MS = 1_000;

/** Why the background work of a hold ends; one for all, since a trace of the stack takes its time. */
const ENDED = new NotHeld('released');

/**
 * A lock that is held. Its lease is renewed until it is released, or lost. A hold does not keep the process alive, nor
 * does it outlive it by more than its lease.
 */
export class Hold implements AsyncDisposable {
  readonly kind: Kind;
  /** As the server knows them. */
  readonly keys: readonly string[];
  /** A name that no other acquisition has; for LOCK.GUARD and LOCK.INFO. */
  readonly owner: string;
  /** The fencing token: a number that only grows for this lock. Null unless it was asked for. */
  readonly token: number | null;
  /** How many permits of a semaphore; 1 for locks. */
  readonly permits: number;

  readonly #connections: Connections;
  readonly #spec: Spec;
  readonly #onEnd: (hold: Hold) => void;
  readonly #loss = new Ending();
  /** When the background work is to end. */
  readonly #end = new Ending();
  readonly #watches = new Set<Line>();
  #line: Line | null;
  /** When the lease is over by our clock, if nothing more is heard. */
  #until = Infinity;
  #untilTimer: NodeJS.Timeout | undefined;
  #nextTimer: NodeJS.Timeout | undefined;
  #released: Promise<void> | undefined;

  /** @internal `onEnd` is called when the hold has been released, or is lost; after a loss twice, perhaps. */
  constructor(connections: Connections, spec: Spec, grant: Grant, onEnd: (hold: Hold) => void) {
    this.#connections = connections;
    this.#spec = spec;
    this.#onEnd = onEnd;
    this.#line = grant.line;
    this.kind = spec.kind;
    this.keys = spec.keys;
    this.owner = grant.owner;
    this.token = grant.token;
    this.permits = spec.permits;
    this.#confirmed(grant.since);
    if (grant.line !== null) {
      this.#liveOn(grant.line);
    } else {
      this.#renewIn(this.#until - now() - (spec.leaseMs * 2) / 3);
    }
    if (spec.watch) {
      spec.keys.forEach((key) => void this.#watch(key));
    }
  }

  /** Aborted when the lock is lost, once, with a NotHeld as the reason; never after an orderly release. */
  get signal(): AbortSignal {
    return this.#loss.signal;
  }

  /** Whether the lock was lost, as far as is known here. */
  get isLost(): boolean {
    return this.#loss.isOver;
  }

  /**
   * Gives the lock back, over connection errors too, for what is left of the lease. Rejects with NotHeld if the lock was
   * lost before, and with the library's error if the server was out of reach. Another call is the same release.
   */
  release(): Promise<void> {
    this.#released ??= this.#release();
    return this.#released;
  }

  /** Releases; if the block has failed too, its error is the `suppressed` of a SuppressedError: see withLock. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.release();
  }

  async #release(): Promise<void> {
    const left = this.isLost ? 0 : Math.max(0, Math.min(this.#until - now(), this.#spec.leaseMs));
    // It goes out first: others wait for it.
    const answer = this.#connections.insist(firstKey(this.#spec), release(this.#spec, this.owner), left);
    this.#stop();
    const { error, again } = await answer;
    if (isNotHeld(error) && this.#spec.kind === 'multi') {
      await this.#releaseEach();
    }
    this.#leave(error === undefined);
    if (this.isLost) {
      throw this.#loss.reason;
    }
    if (error !== undefined && !(isNotHeld(error) && again)) {
      throw typed(error);
    }
  }

  /** Of several locks one was lost: then none was released. */
  async #releaseEach(): Promise<void> {
    const one = (key: string) => this.#connections.insist(key, ['LOCK.RELEASE', key, this.owner], ANSWER_MS);
    await Promise.all(this.keys.map(one));
  }

  /** Ends renewal and watches: from here on nothing is a loss. */
  #stop(): void {
    this.#end.end(ENDED);
    clearTimeout(this.#untilTimer);
    clearTimeout(this.#nextTimer);
  }

  /** Nothing is held any more. `answered`: the server says so, and so it answers the watches. */
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
    this.#loss.end(new NotHeld(`${this.keys.join(', ')}: ${why}`));
  }

  /** The lease runs anew from `since`. */
  #confirmed(since: number): void {
    this.#until = since + this.#spec.leaseMs;
    clearTimeout(this.#untilTimer);
    this.#untilTimer = after(this.#until - now(), () => this.#lose('its lease is over, and was not renewed'));
  }

  #renewIn(ms: number): void {
    if (this.#spec.renew && !this.#end.isOver) {
      this.#nextTimer = after(ms, () => void this.#renew());
    }
  }

  /** One renewal of all keys, and the next one. */
  async #renew(): Promise<void> {
    const sent = now();
    const third = this.#spec.leaseMs / 3;
    try {
      await Promise.all(this.keys.map((key) => this.#renewKey(key)));
      if (!this.#end.isOver) {
        this.#confirmed(sent);
        this.#renewIn(sent + third - now());
      }
    } catch (error) {
      if (isNotHeld(error)) {
        this.#lose('somebody took it away, or its lease was over');
      }
      this.#renewIn(Math.min(500, third / 4));
    }
  }

  /** With replicas the command waits, so it has a connection of its own. */
  async #renewKey(key: string): Promise<void> {
    const args = renew(this.#spec, key, this.owner);
    if (this.#spec.replicas === undefined) {
      await this.#connections.command(key, args);
      return;
    }
    const line = await this.#connections.take(key, this.#end);
    try {
      await line.send(args, this.#spec.replicas.ms + ANSWER_MS);
    } catch (error) {
      this.#connections.learn(key, line, error);
      line.close();
      throw error;
    }
    this.#connections.giveBack(line);
  }

  /** The session lives on this connection. */
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

  /** A session is the server's to renew; that the connection answers is what its lease is, by our clock. */
  #pingIn(line: Line): void {
    const third = this.#spec.leaseMs / 3;
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

  /** The session's connection is gone; on another one it goes on, if the server has not ended it yet. */
  async #rebind(): Promise<void> {
    clearTimeout(this.#nextTimer);
    const until = Math.min(this.#until, now() + GRACE_MS);
    for (const pauses = new Pauses(true); !this.#end.isOver; ) {
      let line: Line | undefined;
      try {
        line = await this.#connections.take(firstKey(this.#spec), this.#end);
        const sent = now();
        for (const key of this.keys) {
          await line.send(renew(this.#spec, key, this.owner), ANSWER_MS);
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
          this.#connections.learn(firstKey(this.#spec), line, error);
        }
        if (isNotHeld(error) || now() >= until) {
          this.#lose('the connection of its session was lost');
          return;
        }
      }
      await pauses.wait(this.#end.signal).catch(() => {});
    }
  }

  /** Waits for the server to say that the hold of `key` is gone, until the hold has ended. */
  async #watch(key: string): Promise<void> {
    const pauses = new Pauses(true);
    while (!this.#end.isOver) {
      let line: Line | undefined;
      try {
        line = await this.#connections.take(key, this.#end);
        line.background = true;
        this.#watches.add(line);
        const { maxBlockMs } = this.#connections;
        const told = await line.send(watch(key, this.owner, maxBlockMs), maxBlockMs + ANSWER_MS);
        this.#watches.delete(line);
        this.#connections.giveBack(line);
        if (told !== null) {
          this.#lose('the server says that it is gone');
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
