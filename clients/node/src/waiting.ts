import { REDIRECTIONS, REPLY_MS, type Connections, type Line } from './connections.js';
import { endsConnection, isTransient, nameOfSubject, ServerError, typed, type Subject } from './errors.js';
import { after, atMost, Ending, now, Pauses, unless, type Deadline } from './time.js';

/** How long a caller waits at most while its aborted request is given up, in ms; then this continues in the background. */
export const GIVING_UP_MS = 2_000;

/** How late a wait ends if the server does not respond, in ms. */
const LATE_MS = 80;

/** The reason of a stop() when the wait has timed out and its reply is late. */
const LATE = Symbol('late');

/** The reason of a stop() when no connection was ever established within the time for that. */
const UNCONNECTED = Symbol('unconnected');

/** The wait has timed out: the server replied so, or the last attempt failed. */
const TIMED_OUT = Symbol('timed out');

/** What a wait requests, and how. */
export interface Request {
  subject: Subject;
  /** The key by which the command is routed. */
  key: string;
  /** The command. `block`: how long it blocks, in ms; 0 has no limit, null does not block. It is safe to send it again. */
  command(block: number | null): string[];
  /** A try without BLOCK needs no connection of its own. */
  shares: boolean;
  /** A waiter loses its place when its BLOCK times out, but not when its connection closes. */
  keepsPlace: boolean;
  /** How much longer than BLOCK the command may take, in ms. */
  extraMs: number;
}

/** A wait on the server for something, over as many connections as necessary. */
export abstract class Waiting<Result> {
  protected readonly connections: Connections;
  readonly #request: Request;
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
  protected pending: Promise<unknown> | null = null;
  /**
   * The result of a request is not known: its owner may hold or wait, or the request may still arrive. `cut`: its
   * connection is lost, so no reply will be read.
   */
  protected doubt: 'cut' | 'replied' | null = null;
  /** How often it was redirected since the last pause. */
  #hops = 0;

  /** `background` is called with the work that continues after run() has ended. */
  constructor(connections: Connections, request: Request, background: (work: Promise<void>) => void) {
    this.connections = connections;
    this.#request = request;
    this.#background = background;
  }

  /** Gives back the connection, or keeps it, and returns what the reply means. */
  protected abstract granted(line: Line, reply: unknown, sent: number): Result;

  /**
   * The result of a wait that has timed out, or its error is thrown; `work` gives the request up. `cause`: the library's
   * error, if the last event was one; a try rejects with it.
   */
  protected abstract timedOut(deadline: Deadline, work: Promise<void>, cause: unknown): Promise<Result>;

  /** Gives up a request whose result is not known. Never rejects. */
  protected abstract giveUp(): Promise<void>;

  /** The reply is not awaited any more. */
  protected abstract leave(line: Line, pending: Promise<unknown>): void;

  get subject(): Subject {
    return this.#request.subject;
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
   * Waits until this deadline at most. Rejects with a LockError, with the reason of abort(), or with the library's
   * error. Then the request is given up on the server, or this continues in the background.
   */
  async run(deadline: Deadline): Promise<Result> {
    const { waitMs, until } = deadline;
    const { subject, shares, extraMs } = this.#request;
    const lateMs = until - now() + LATE_MS + extraMs;
    // If the event loop was blocked, the reply may have arrived: it is read before the immediate runs.
    const late = after(lateMs, () => setImmediate(() => this.abort(LATE)));
    const { connected, connectTimeoutMs } = this.connections;
    const unconnected = () => this.connections.connected || this.abort(UNCONNECTED);
    const early = connected || connectTimeoutMs > deadline.leftMs ? undefined : after(connectTimeoutMs, unconnected);
    this.#short = waitMs === 0 && shares;
    try {
      return await this.#repeat(waitMs, until);
    } catch (error) {
      clearTimeout(early);
      const timedOut = error === TIMED_OUT || error === LATE;
      let work = Promise.resolve();
      if (this.pending !== null || this.doubt !== null) {
        work = this.giveUp();
        this.#background(work);
      }
      if (error === UNCONNECTED) {
        throw typed(subject, this.#last) ?? this.connections.timeoutError('connection to', connectTimeoutMs);
      }
      if (timedOut) {
        const cause = this.#last ?? this.#silence(waitMs);
        if (cause !== undefined && waitMs === 0) {
          throw typed(subject, cause);
        }
        return await this.timedOut(deadline, work, cause);
      }
      await atMost(Math.min(GIVING_UP_MS, deadline.leftMs), work);
      throw typed(subject, error);
    } finally {
      clearTimeout(late);
      clearTimeout(early);
    }
  }

  /** The error if the server was silent until the end of the wait; undefined if it replied. */
  #silence(waitMs: number): unknown {
    if (this.#connecting) {
      return this.connections.timeoutError('connection to', waitMs || LATE_MS);
    }
    return this.pending === null ? undefined : this.connections.timeoutError('reply from', waitMs || LATE_MS);
  }

  async #repeat(waitMs: number, until: number): Promise<Result> {
    const pauses = new Pauses();
    for (;;) {
      if (this.stop.hasEnded) {
        throw this.stop.reason;
      }
      const outcome = await this.#once(waitMs === 0, until);
      if (typeof outcome === 'object') {
        return outcome.result;
      }
      if (outcome === 'pause') {
        this.#hops = 0;
        await this.connections.idleOr(pauses.wait(this.stop.signal, Math.max(0, until - now())), this.#last);
      } else {
        pauses.reset();
      }
    }
  }

  /** One blocking call. `only`: do not wait. */
  async #once(only: boolean, until: number): Promise<{ result: Result } | 'next' | 'pause'> {
    const { maxBlockMs } = this.connections;
    const { key, extraMs } = this.#request;
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
        this.connections.giveBack(line);
        throw this.stop.reason;
      }
      this.#last = undefined;
      this.connections.watchOutage(line);
      left = Math.max(1, Math.ceil(until - now()));
      const keepsPlace = this.#request.keepsPlace && !only && left > maxBlockMs;
      const block = only ? null : keepsPlace ? (left > Number.MAX_SAFE_INTEGER ? 0 : left) : Math.min(left, maxBlockMs);
      const replyMs = (keepsPlace ? Infinity : (block ?? 0)) + REPLY_MS + extraMs;
      if (keepsPlace) {
        limit = after(maxBlockMs + extraMs, () => ((cut = true), used.close()));
      }
      sent = now();
      const pending = (this.pending = line.send(this.#request.command(block), replyMs));
      // The reply, unless the request is given up first.
      const reply = await new Promise((resolve, reject) => {
        this.#interrupt = reject;
        pending.then(resolve, reject);
      });
      clearTimeout(limit);
      this.pending = null;
      this.connections.replied(key, line);
      if (reply !== null) {
        return { result: this.granted(line, reply, sent) };
      }
      this.#failures = 0;
      this.connections.giveBack(line);
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
      return this.connections.takeToWait(this.#request.key, this.stop);
    }
    const control = this.connections.control(this.#request.key);
    return control instanceof Promise ? unless(this.stop.signal, control) : control;
  }

  /** Decides whether an error ends the request; if so, it is thrown. `only`: this was a try without a wait. */
  #failed(line: Line | undefined, error: unknown, atMaxBlock: boolean, only: boolean, until: number): 'next' | 'pause' {
    if (this.stop.hasEnded) {
      if (line !== undefined && this.pending !== null) {
        this.leave(line, this.pending);
      }
      throw this.stop.reason;
    }
    this.#connecting = false;
    const replied = error instanceof ServerError;
    // The end of a blocking call that this closed itself says nothing about the server.
    const elsewhere = line !== undefined && !(atMaxBlock && !replied) && this.connections.failed(this.#request.key, line, error);
    this.#last = error;
    if (this.pending !== null) {
      this.pending = null;
      if (isTransient(error) && this.doubt !== 'cut') {
        this.doubt = replied ? 'replied' : 'cut';
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
      this.connections.warnOfOutage(nameOfSubject(this.subject), error);
    }
    return stale ? 'next' : 'pause';
  }
}
