import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';

import { acquire, cancel, firstKey, holdersIn, info, release, type Spec } from './command.js';
import { REDIRECTIONS, REPLY_MS, type Connections, type Line } from './connections.js';
import { addressOf, endsConnection, isNotHeld, isTransient, located, nameOfLock, NotAcquired, ServerError, typed } from './errors.js';
import { after, atMost, Ending, now, Pauses, unless } from './time.js';

/** How long a caller waits at most while its aborted request is given up, in ms; then this continues in the background. */
const GIVING_UP_MS = 2_000;

/** How late a wait ends if the server does not respond, in ms. */
const LATE_MS = 80;

/** How late a wait ends that also requests the holders, in ms. */
const NAMED_MS = 90;

/** Within this time, in ms, a command arrives that was on its way when its connection was cut. */
const STRAGGLER_MS = 100;

/** The reason of a stop() when the wait has timed out and its reply is late. */
const LATE = Symbol('late');

/** The reason of a stop() when no connection was ever established within the time for that. */
const UNCONNECTED = Symbol('unconnected');

/** The wait has timed out: the server replied so, or the last attempt failed. */
const TIMED_OUT = Symbol('timed out');

const PROCESS = `${hostname()}:${process.pid}`;

/** An owner's name: LOCK.INFO shows where it is. 80 of the 122 random bits of a UUID, which Node makes in advance. */
function newOwner(): string {
  const random = randomUUID();
  return `${PROCESS}:${random.slice(0, 8)}${random.slice(24)}`;
}

/** A granted lock. */
export interface Grant {
  owner: string;
  /** The fencing token, null without one. */
  token: number | null;
  /** When the lease began, or earlier; by now(). */
  since: number;
  /** False after a long wait: the lease may have begun before `since`. */
  exact: boolean;
  /** The connection to which a session is bound, or on which a renewal waits for replicas; otherwise null. */
  line: Line | null;
}

/** One request for a lock, with an owner of its own, over as many connections as necessary. */
export class Acquisition {
  readonly #connections: Connections;
  readonly #spec: Spec;
  readonly #key: string;
  readonly #owner = newOwner();
  readonly #background: (work: Promise<void>) => void;
  /** Ends when this request is given up. */
  readonly stop = new Ending();
  /** Ends the wait for a reply, with an error. */
  #interrupt: (reason: unknown) => void = () => {};
  /** A connection is being established. */
  #connecting = false;
  /** The last result, if it was a connection error. */
  #last: unknown;
  /** How many connection errors there were since the last reply. */
  #failures = 0;
  /** The request does not block, so it uses the connection that all short commands share. */
  #short = false;
  /** The request that has no reply yet. */
  #pending: Promise<unknown> | null = null;
  /**
   * The result of a request is not known: its owner may hold or wait, or the request may still arrive. `cut`: its
   * connection is lost, so no reply will be read.
   */
  #doubt: 'cut' | 'replied' | null = null;
  /** How often it was redirected since the last pause. */
  #hops = 0;

  /** `background` is called with the work that continues after run() has ended. */
  constructor(connections: Connections, spec: Spec, background: (work: Promise<void>) => void) {
    this.#connections = connections;
    this.#spec = spec;
    this.#key = firstKey(spec);
    this.#background = background;
  }

  /** It was given up by abort() from outside, not because it timed out. */
  get aborted(): boolean {
    return this.stop.hasEnded && this.stop.reason !== LATE && this.stop.reason !== UNCONNECTED;
  }

  /** Gives the request up: run() rejects with this reason. */
  abort(reason: unknown): void {
    this.stop.end(reason);
    this.#interrupt(reason);
  }

  /**
   * Waits for the lock, `waitMs` at most. Rejects with a LockError, with the reason of abort(), or with the library's
   * error. Then the request is cancelled on the server, or this continues in the background. NotAcquired names the
   * holders only with `named`.
   */
  async run(waitMs: number, named: boolean): Promise<Grant> {
    const until = now() + waitMs;
    const lateMs = waitMs + LATE_MS + (this.#spec.replicas?.ms ?? 0);
    // If the event loop was blocked, the reply may have arrived: it is read before the immediate runs.
    const late = after(lateMs, () => setImmediate(() => this.abort(LATE)));
    const { connected, connectTimeoutMs } = this.#connections;
    const unconnected = () => this.#connections.connected || this.abort(UNCONNECTED);
    const early = connected || connectTimeoutMs > waitMs ? undefined : after(connectTimeoutMs, unconnected);
    this.#short = waitMs === 0 && !this.#spec.session && this.#spec.replicas === undefined;
    try {
      return await this.#request(waitMs, until);
    } catch (error) {
      clearTimeout(early);
      const timedOut = error === TIMED_OUT || error === LATE;
      let work = Promise.resolve();
      if (this.#pending !== null || this.#doubt !== null) {
        work = this.#giveUp();
        this.#background(work);
      }
      if (error === UNCONNECTED) {
        throw this.#last ?? this.#connections.timeoutError('connection to', connectTimeoutMs);
      }
      if (timedOut) {
        throw await this.#notInTime(waitMs, until, work, named);
      }
      await atMost(now() >= until ? 0 : GIVING_UP_MS, work);
      throw typed(this.#spec, error);
    } finally {
      clearTimeout(late);
      clearTimeout(early);
    }
  }

  /** The error of a wait that has timed out; `work` gives the request up. */
  async #notInTime(waitMs: number, until: number, work: Promise<void>, named: boolean): Promise<unknown> {
    const cause = this.#last ?? this.#silence(waitMs);
    if (cause !== undefined && waitMs === 0) {
      return cause;
    }
    const left = until + NAMED_MS - now();
    const holders = new Set<string>();
    const found = named && cause === undefined && left > 0 ? this.#findHolders(holders) : null;
    await atMost(Math.max(left, 0), Promise.all([found, work]));
    return new NotAcquired(this.#spec, waitMs, [...holders], cause);
  }

  /** The error if the server was silent until the end of the wait; undefined if it replied. */
  #silence(waitMs: number): unknown {
    if (this.#connecting) {
      return this.#connections.timeoutError('connection to', waitMs || LATE_MS);
    }
    return this.#pending === null ? undefined : this.#connections.timeoutError('reply from', waitMs || LATE_MS);
  }

  async #findHolders(holders: Set<string>): Promise<void> {
    const find = async (key: string) => {
      holdersIn(await this.#connections.command(key, info(key))).forEach((holder) => holders.add(holder));
    };
    await Promise.allSettled(this.#spec.keys.map(find));
  }

  async #request(waitMs: number, until: number): Promise<Grant> {
    const pauses = new Pauses();
    for (;;) {
      if (this.stop.hasEnded) {
        throw this.stop.reason;
      }
      const grant = await this.#once(waitMs === 0, until);
      if (typeof grant === 'object') {
        return grant;
      }
      if (grant === 'pause') {
        this.#hops = 0;
        await this.#connections.idleOr(pauses.wait(this.stop.signal, Math.max(0, until - now())), this.#last);
      } else {
        pauses.reset();
      }
    }
  }

  /** One blocking call. `only`: do not wait. */
  async #once(only: boolean, until: number): Promise<Grant | 'next' | 'pause'> {
    const { maxBlockMs } = this.#connections;
    const replicasMs = this.#spec.replicas?.ms ?? 0;
    let line: Line | undefined;
    let limit: NodeJS.Timeout | undefined;
    let cut = false;
    let sent = now();
    let left = 0;
    try {
      this.#connecting = true;
      const used = (line = await this.#line());
      this.#connecting = false;
      if (this.stop.hasEnded) {
        this.#connections.giveBack(line);
        throw this.stop.reason;
      }
      this.#last = undefined;
      this.#connections.watchOutage(line);
      left = Math.max(1, Math.ceil(until - now()));
      // A fair waiter loses its place when its BLOCK times out, but not when its connection closes.
      const keepsPlace = this.#spec.kind === 'fair' && !only && left > maxBlockMs;
      const block = only ? null : keepsPlace ? (left > Number.MAX_SAFE_INTEGER ? 0 : left) : Math.min(left, maxBlockMs);
      const replyMs = (keepsPlace ? Infinity : (block ?? 0)) + REPLY_MS + replicasMs;
      if (keepsPlace) {
        limit = after(maxBlockMs + replicasMs, () => ((cut = true), used.close()));
      }
      sent = now();
      const pending = (this.#pending = line.send(acquire(this.#spec, this.#owner, block), replyMs));
      // The reply, unless the request is given up first.
      const reply = await new Promise((resolve, reject) => {
        this.#interrupt = reject;
        pending.then(resolve, reject);
      });
      clearTimeout(limit);
      this.#pending = null;
      this.#connections.replied(this.#key, line);
      if (reply !== null) {
        return this.#granted(line, reply, sent);
      }
      this.#failures = 0;
      this.#connections.giveBack(line);
    } catch (error) {
      clearTimeout(limit);
      return this.#failed(line, error, cut, only, until);
    }
    if (only || now() >= until) {
      throw TIMED_OUT;
    }
    // If another client ended the wait early, there must be no busy loop; clocks differ by 1 ms.
    return left < 2 || now() - sent < Math.min(left, maxBlockMs) - 1 ? 'pause' : 'next';
  }

  #line(): Line | Promise<Line> {
    if (!this.#short) {
      return this.#connections.takeToWait(this.#key, this.stop);
    }
    const control = this.#connections.control(this.#key);
    return control instanceof Promise ? unless(this.stop.signal, control) : control;
  }

  /**
   * The reply is not awaited any more; the connection can be used again when the reply has arrived soon. It is not if
   * a session may be bound to it.
   */
  #returnLater(line: Line, pending: Promise<unknown>): void {
    const limit = line.shared ? undefined : after(GIVING_UP_MS, () => line.close());
    const replied = () => (this.#spec.session ? line.close() : this.#connections.giveBack(line));
    const failed = (error: unknown) => void this.#connections.failed(this.#key, line, error);
    void pending.then(replied, failed).then(() => clearTimeout(limit));
  }

  #granted(line: Line, reply: unknown, sent: number): Grant {
    const received = now();
    const exact = received - sent <= this.#spec.leaseMs / 3;
    const keeps = this.#spec.session || this.#spec.replicas !== undefined;
    if (!keeps) {
      this.#connections.giveBack(line);
    }
    const token = this.#spec.fenced ? Number(reply) : null;
    return { owner: this.#owner, token, since: exact ? sent : received, exact, line: keeps ? line : null };
  }

  /** Decides whether an error ends the request; if so, it is thrown. `only`: this was a try without a wait. */
  #failed(line: Line | undefined, error: unknown, atMaxBlock: boolean, only: boolean, until: number): 'next' | 'pause' {
    if (this.stop.hasEnded) {
      if (line !== undefined && this.#pending !== null) {
        this.#returnLater(line, this.#pending);
      }
      throw this.stop.reason;
    }
    this.#connecting = false;
    const replied = error instanceof ServerError;
    // The end of a blocking call that this closed itself says nothing about the server.
    const elsewhere = line !== undefined && !(atMaxBlock && !replied) && this.#connections.failed(this.#key, line, error);
    this.#last = located(typed(this.#spec, error), addressOf(error));
    if (this.#pending !== null) {
      this.#pending = null;
      if (isTransient(error) && this.#doubt !== 'cut') {
        this.#doubt = replied ? 'replied' : 'cut';
      }
    }
    if ((elsewhere && ++this.#hops <= REDIRECTIONS) || (atMaxBlock && now() < until)) {
      return 'next';
    }
    const stale = line?.reused === true && !replied;
    if (!isTransient(error)) {
      throw error;
    }
    if (now() >= until && !stale) {
      throw replied && only ? error : TIMED_OUT;
    }
    // One lost connection is no outage yet.
    if (endsConnection(error) && !stale && (++this.#failures > 1 || line === undefined)) {
      this.#connections.warnOfOutage(nameOfLock(this.#spec), error);
    }
    return stale ? 'next' : 'pause';
  }

  /**
   * Cancels the request on the server, whatever its result. Tries for the lease at most, and soon without keeping the
   * process alive; never rejects.
   */
  async #giveUp(): Promise<void> {
    const until = now() + this.#spec.leaseMs;
    const pauses = new Pauses(GIVING_UP_MS);
    let ended = await this.#cancel(until, pauses);
    // The owner neither waits nor holds: the request may not have arrived yet, and only its reply shows that it has.
    const never = new AbortController().signal;
    for (pauses.reset(); !ended && this.#pending !== null && now() < until; ) {
      let settled = false;
      const pending = this.#pending.then(
        () => (settled = true),
        () => ((settled = true), (this.#doubt = 'cut')),
      );
      await Promise.race([pending, pauses.wait(never)]);
      ended = await this.#cancel(until, pauses);
      if (settled) {
        break;
      }
    }
    if (ended && this.#pending !== null) {
      // Its reply will arrive soon; then the connection can be used for the next wait.
      await atMost(STRAGGLER_MS, this.#pending);
    }
    if (this.#doubt === 'cut') {
      await atMost(STRAGGLER_MS, new Promise(() => {}));
      await this.#cancel(until, pauses);
    }
  }

  /** One LOCK.CANCEL that gets a reply. True if there was a wait to end or a hold to release. */
  async #cancel(until: number, pauses: Pauses): Promise<boolean> {
    const send = (args: string[]) => this.#connections.insist(this.#key, args, Math.max(0, until - now()), pauses);
    const { reply } = await send(cancel(this.#spec, this.#owner));
    if (Number(reply ?? 0) > 0 || this.#spec.kind !== 'multi') {
      return Number(reply ?? 0) > 0;
    }
    const { error } = await send(release(this.#spec, this.#owner));
    return error === undefined && !isNotHeld(error);
  }
}
