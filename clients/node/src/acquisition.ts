import { randomUUID } from 'node:crypto';

import { acquire, cancel, firstKey, release, type Spec } from './command.js';
import { ANSWER_MS, REDIRECTIONS, type Connections, type Line } from './connections.js';
import { isNotHeld, NotAcquired, passes, ServerError, typed } from './errors.js';
import { after, atMost, Ending, now, Pauses } from './time.js';

/** How long a caller waits at most while its request is given up, in ms; then this continues in the background. */
const GIVING_UP_MS = 2_000;

/** How late a wait ends if the server does not respond, in ms; giving up has most of the rest of 2 s. */
const LATE_MS = 1_200;

/** Within this time, in ms, a command arrives that was on its way when its connection was cut. */
const STRAGGLER_MS = 100;

/** A granted lock. */
export interface Grant {
  owner: string;
  /** The fencing token, null without one. */
  token: number | null;
  /** When the lease began, or a little later; by now(). */
  since: number;
  /** The connection to which a session is bound; null without a session. */
  line: Line | null;
}

/** One request for a lock, with an owner of its own, over as many connections as necessary. */
export class Acquisition {
  readonly #connections: Connections;
  readonly #spec: Spec;
  readonly #key: string;
  readonly #owner = randomUUID();
  readonly #background: (work: Promise<void>) => void;
  /** Ends when this request is given up. */
  readonly stop = new Ending();
  /** Ends the wait for a reply, with an error. */
  #interrupt: (reason: unknown) => void = () => {};
  /** The last result, if it was a connection error. */
  #last: unknown;
  /** The request that has no reply yet. */
  #pending: Promise<unknown> | null = null;
  /** The result of a request is not known: its owner may hold or wait, or the request may still arrive. */
  #unsure = false;
  /** With `#unsure`: the connection is lost, so no reply will be read. */
  #cut = false;
  /** How often it was redirected since the last pause. */
  #hops = 0;

  /** `background` is called with the work that continues after run() has ended. */
  constructor(connections: Connections, spec: Spec, background: (work: Promise<void>) => void) {
    this.#connections = connections;
    this.#spec = spec;
    this.#key = firstKey(spec);
    this.#background = background;
  }

  /** Gives the request up: run() rejects with this reason. */
  abort(reason: unknown): void {
    this.stop.end(reason);
    this.#interrupt(reason);
  }

  /**
   * Waits for the lock, `waitMs` at most. Rejects with a LockError, with the reason of abort(), or with the library's
   * error. Then the request is cancelled on the server, or this continues in the background.
   */
  async run(waitMs: number): Promise<Grant> {
    const until = now() + waitMs;
    const replicasMs = this.#spec.replicas?.ms ?? 0;
    const late = after(waitMs + LATE_MS + replicasMs, () => this.abort(this.#last ?? this.#notInTime()));
    try {
      return await this.#ask(waitMs, until);
    } catch (error) {
      if (this.#pending !== null || this.#unsure) {
        const work = this.#giveUp();
        this.#background(work);
        await atMost(now() > until ? GIVING_UP_MS - LATE_MS - 200 : GIVING_UP_MS, work);
      }
      throw typed(error);
    } finally {
      clearTimeout(late);
    }
  }

  #notInTime(): NotAcquired {
    return new NotAcquired(`${this.#spec.keys.join(', ')}: not acquired in time`);
  }

  async #ask(waitMs: number, until: number): Promise<Grant> {
    const pauses = new Pauses();
    for (;;) {
      this.stop.throwIfOver();
      const left = until - now();
      const grant = await this.#once(waitMs === 0 ? null : Math.max(1, Math.ceil(left)), until);
      if (typeof grant === 'object') {
        return grant;
      }
      if (grant === 'pause') {
        this.#hops = 0;
        await pauses.wait(this.stop.signal, Math.max(0, until - now()));
      } else {
        pauses.reset();
      }
    }
  }

  /** One blocking call. `left`: how long to wait, in ms; null: do not wait. */
  async #once(left: number | null, until: number): Promise<Grant | 'next' | 'pause'> {
    let line: Line | undefined;
    const cut = { atMaxBlock: false };
    const sent = now();
    try {
      line = await this.#connections.take(this.#key, this.stop);
      const reply = await this.#send(line, left, cut);
      this.#connections.replied(this.#key, line);
      if (reply !== null) {
        return this.#granted(line, reply, left === null ? sent : now());
      }
      this.#last = undefined;
      this.#connections.giveBack(line);
    } catch (error) {
      return this.#failed(line, error, cut.atMaxBlock, until);
    }
    if (left === null || now() >= until) {
      throw this.#notInTime();
    }
    // If another client ended the wait early, there must be no busy loop; clocks differ by 1 ms.
    return left < 2 || now() - sent < Math.min(left, this.#connections.maxBlockMs) - 1 ? 'pause' : 'next';
  }

  async #send(line: Line, left: number | null, cut: { atMaxBlock: boolean }): Promise<unknown> {
    // A fair waiter loses its place when its BLOCK times out, but not when its connection closes.
    const keepsPlace = this.#spec.kind === 'fair' && left !== null && left > this.#connections.maxBlockMs;
    const block = left === null ? null : keepsPlace ? (left === Infinity ? 0 : left) : Math.min(left, this.#connections.maxBlockMs);
    const answerMs = (keepsPlace ? Infinity : (block ?? 0)) + ANSWER_MS + (this.#spec.replicas?.ms ?? 0);
    const limit = keepsPlace ? after(this.#connections.maxBlockMs, () => ((cut.atMaxBlock = true), line.close())) : undefined;
    try {
      this.#pending = line.send(acquire(this.#spec, this.#owner, block), answerMs);
      const reply = await this.#answered(this.#pending);
      this.#pending = null;
      return reply;
    } catch (error) {
      if (this.stop.isOver) {
        this.#returnLater(line);
      }
      throw error;
    } finally {
      clearTimeout(limit);
    }
  }

  /** The reply, unless the request is given up first. */
  #answered(pending: Promise<unknown>): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.#interrupt = reject;
      pending.then(resolve, reject);
      if (this.stop.isOver) {
        reject(this.stop.reason);
      }
    });
  }

  /** The reply is not awaited any more; the connection can be used again when the reply has arrived. */
  #returnLater(line: Line): void {
    this.#pending?.then(
      () => this.#connections.giveBack(line),
      () => line.close(),
    );
  }

  #granted(line: Line, reply: unknown, since: number): Grant {
    this.#connections.prepare(this.#key);
    const grant = { owner: this.#owner, token: this.#spec.fenced ? Number(reply) : null, since };
    if (this.#spec.session) {
      return { ...grant, line };
    }
    this.#connections.giveBack(line);
    return { ...grant, line: null };
  }

  /** Decides whether an error ends the request; if so, it is thrown. */
  #failed(line: Line | undefined, error: unknown, atMaxBlock: boolean, until: number): 'next' | 'pause' {
    this.stop.throwIfOver();
    const answered = error instanceof ServerError;
    this.#last = answered ? undefined : error;
    if (this.#pending !== null) {
      this.#pending = null;
      this.#unsure ||= passes(error);
      this.#cut ||= !answered;
    }
    line?.close();
    const elsewhere = line !== undefined && this.#connections.learn(this.#key, line, error);
    if ((elsewhere && ++this.#hops <= REDIRECTIONS) || (atMaxBlock && now() < until)) {
      return 'next';
    }
    const stale = line?.reused === true && !answered;
    if (!passes(error) || (now() >= until && !stale)) {
      throw error;
    }
    return stale ? 'next' : 'pause';
  }

  /** Cancels the request on the server, whatever its result. Tries for the lease at most; never rejects. */
  async #giveUp(): Promise<void> {
    const until = now() + this.#spec.leaseMs;
    let ended = await this.#cancel(until);
    // The owner neither waits nor holds: the request may not have arrived yet, and only its reply shows that it has.
    const never = new AbortController().signal;
    for (const pauses = new Pauses(); !ended && this.#pending !== null && now() < until; ) {
      let answered = false;
      const pending = this.#pending.then(
        () => (answered = true),
        () => (answered = this.#cut = true),
      );
      await Promise.race([pending, pauses.wait(never)]);
      ended = await this.#cancel(until);
      if (answered) {
        break;
      }
    }
    if (ended && this.#pending !== null) {
      // Its reply will arrive soon; then the connection can be used for the next wait.
      await atMost(STRAGGLER_MS, this.#pending);
    }
    if (this.#cut) {
      await atMost(STRAGGLER_MS, new Promise(() => {}));
      await this.#cancel(until);
    }
  }

  /** One LOCK.CANCEL that gets a reply. True if there was a wait to end or a hold to release. */
  async #cancel(until: number): Promise<boolean> {
    const left = () => Math.max(0, until - now());
    const { reply } = await this.#connections.insist(this.#key, cancel(this.#spec, this.#owner), left());
    if (Number(reply ?? 0) > 0 || this.#spec.kind !== 'multi') {
      return Number(reply ?? 0) > 0;
    }
    const { error } = await this.#connections.insist(this.#key, release(this.#spec, this.#owner), left());
    return error === undefined && !isNotHeld(error);
  }
}
