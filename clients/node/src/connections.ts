import type { Address, Connection, Connector, Word } from './connector.js';
import { checkPositive } from './command.js';
import { addressOf, CLOSED, endsConnection, isTransient, isWrongServer, located, secondsOf, ServerError, textOf, warn } from './errors.js';
import { nameOf, Routes, type Route } from './routes.js';
import { after, Ending, now, Pauses, unless, within } from './time.js';

/** How the locks of a client behave. */
export interface Settings {
  /**
   * How long one command blocks at most, in ms; 30000 by default. Then the request is sent again, so that a server that
   * stopped responding is noticed.
   */
  maxBlockMs?: number | undefined;
  /**
   * How long it may take to establish a connection, in ms; 5000 by default. If none was ever established, a wait ends
   * after this time with the library's error; after the first one, a wait lasts as long as it was requested.
   */
  connectTimeoutMs?: number | undefined;
}

/** How long the reply to a command that does not block may take before its connection is considered dead, in ms. */
export const REPLY_MS = 2_000;

/** How much earlier than that a command is sent for the last time, in ms. */
const MARGIN_MS = 100;

/** A connection that lasts for so long shows that an outage has ended, in ms. */
const LASTS_MS = 1_000;

/** How many idle connections to each node are kept for later waits, and for how long. */
const IDLE_MOST = 8;
const IDLE_MS = 10_000;
const SWEEP_MS = 1_000;

/** How many redirections are followed without a pause, because two nodes may redirect to each other. */
export const REDIRECTIONS = 16;

/** The result of a command. */
type Result = { reply?: unknown; error?: unknown; again: boolean };

/** A connection, and its state. It keeps the process alive only while a reply is awaited. */
export class Line {
  readonly node: Address | null;
  /** Where the server is, for texts. */
  readonly address: string;
  closed = false;
  /** The node's connection for short commands, used by all; the others have one user at a time. */
  shared = false;
  /** It was used before: its failure does not mean that the server has failed. */
  reused = false;
  /** A reply that is awaited on it does not keep the process alive. */
  background = false;
  /** The node is the target of an ASK redirection: commands follow ASKING. */
  asking: boolean;
  /** Called when it is closed. */
  readonly onClose = new Set<() => void>();
  readonly #connection: Connection;
  #awaited = 0;
  #alive = false;

  constructor(connection: Connection, node: Address | null, ask: boolean, address: string) {
    this.#connection = connection;
    this.node = node;
    this.address = address;
    this.asking = ask;
    connection.keepAlive(false);
    connection.onClose(() => this.#ended());
  }

  /** The same as Connection.send; without a reply within `replyMs`, the connection is closed. */
  send(args: Word[], replyMs: number): Promise<unknown> {
    if (this.asking) {
      this.#connection.send(['ASKING']).catch(() => {});
    }
    // The command is sent, and its reply passed on, before anything else, because the caller waits for both.
    const reply = this.#connection.send(args);
    // If the event loop was blocked, the reply may have arrived: it is read before the immediate runs.
    let isSettled = false;
    const timer = after(replyMs, () => setImmediate(() => isSettled || this.close()));
    this.#awaited++;
    this.#keepAlive();
    const settled = () => {
      isSettled = true;
      setImmediate(() => {
        clearTimeout(timer);
        this.#awaited--;
        this.#keepAlive();
      });
    };
    reply.then(settled, settled);
    return reply;
  }

  #keepAlive(): void {
    const alive = this.#awaited > 0 && !this.background;
    if (alive !== this.#alive) {
      this.#alive = alive;
      this.#connection.keepAlive(alive);
    }
  }

  close(): void {
    this.#connection.close();
    this.#ended();
  }

  /** Libraries report some time later that a connection was closed; nothing may use it until then. */
  #ended(): void {
    this.closed = true;
    this.onClose.forEach((listener) => listener());
    this.onClose.clear();
  }
}

/** All connections of one client's locks: one to each node for short commands, and one for each wait. */
export class Connections {
  readonly maxBlockMs: number;
  readonly connectTimeoutMs: number;
  /** A connection has been established before. */
  connected = false;
  /** The servers to which waits have no connection, from the first failed attempt to the first reply. */
  readonly #outages = new Set<string>();
  readonly #connector: Connector;
  readonly #routes: Routes;
  /** The connections for short commands; a promise while one is being established. */
  readonly #controls = new Map<string, Line | Promise<Line>>();
  /** Those that have no user, and since when. */
  readonly #idle = new Map<Line, number>();
  #sweeper: NodeJS.Timeout | undefined;
  readonly #lines = new Set<Line>();
  /** Wake waits that pause, each with the server that failed. */
  readonly #paused = new Map<() => void, string>();
  readonly #closing = new AbortController();

  constructor(connector: Connector, { maxBlockMs = 30_000, connectTimeoutMs = 5_000 }: Settings = {}) {
    checkPositive('maxBlockMs', maxBlockMs);
    checkPositive('connectTimeoutMs', connectTimeoutMs);
    this.maxBlockMs = maxBlockMs;
    this.connectTimeoutMs = connectTimeoutMs;
    this.#connector = connector;
    this.#routes = new Routes(connector);
  }

  /**
   * A connection for `key`, which belongs to the caller until it gives it back or closes it. None is made after `stop`.
   */
  take(key: string, stop: Ending): Promise<Line> {
    return this.#take(key, this.#routes.find(key), stop);
  }

  /**
   * The same for a wait. The connection of short commands is established first, so that the lock can be released and
   * renewed even if the server refuses further connections.
   */
  async takeToWait(key: string, stop: Ending): Promise<Line> {
    const route = this.#routes.find(key);
    const control = route.ask ? null : this.#control(key, route.node);
    if (control instanceof Promise) {
      await unless(stop.signal, control);
    }
    return this.#take(key, route, stop);
  }

  async #take(key: string, { node, ask }: Route, stop: Ending): Promise<Line> {
    for (const line of this.#idle.keys()) {
      if (nameOf(line.node) === nameOf(node) && !ask) {
        this.#idle.delete(line);
        line.reused = true;
        return line;
      }
    }
    // One that is established too late for this wait is kept for the next.
    const connecting = this.#connect(key, node, ask);
    try {
      return await unless(stop.signal, connecting);
    } catch (error) {
      if (stop.hasEnded) {
        connecting.then((late) => this.giveBack(late), () => {});
      }
      throw error;
    }
  }

  /** The connection for a short command about `key`, which does not block. It is given back afterwards, too. */
  control(key: string): Line | Promise<Line> {
    const { node, ask } = this.#routes.find(key);
    const control = ask ? this.#connect(key, node, ask) : this.#control(key, node);
    if (control instanceof Line) {
      control.reused = true;
    }
    return control;
  }

  /** Keeps a connection without a pending reply for a later wait, or closes it. */
  giveBack(line: Line): void {
    if (line.shared) {
      return;
    }
    if (line.closed || this.#closing.signal.aborted || this.#idleAt(line.node) >= IDLE_MOST) {
      line.close();
      return;
    }
    line.background = line.asking = false;
    this.#idle.set(line, now());
    this.#sweeper ??= setInterval(() => this.#sweep(), SWEEP_MS).unref();
    for (const [wake, address] of this.#paused) {
      if (address === line.address) {
        wake();
        break;
      }
    }
  }

  /** Closes connections that have been idle for long. */
  #sweep(): void {
    for (const [line, since] of this.#idle) {
      if (now() - since >= IDLE_MS) {
        this.#idle.delete(line);
        line.close();
      }
    }
    if (this.#idle.size === 0) {
      clearInterval(this.#sweeper);
      this.#sweeper = undefined;
    }
  }

  /** Waits for `pause`, but not longer than until a connection is given back to the server that failed with `error`. */
  async idleOr(pause: Promise<void>, error: unknown): Promise<void> {
    let woken = () => {};
    const idle = new Promise<void>((resolve) => {
      woken = () => (this.#paused.delete(woken), resolve());
      this.#paused.set(woken, addressOf(error));
    });
    await Promise.race([pause, idle]).finally(woken);
  }

  #idleAt(node: Address | null): number {
    let count = 0;
    for (const line of this.#idle.keys()) {
      count += nameOf(line.node) === nameOf(node) ? 1 : 0;
    }
    return count;
  }

  /** To be called when a command for `key` has had a reply that is not an error. */
  replied(key: string, line: Line): void {
    this.#outages.delete(line.address);
    if (!line.asking) {
      this.#routes.found(key, line.node);
    }
  }

  /**
   * To be called with every error of a line, which then is given back or closed. True if it redirects to a node that
   * was not known before: see Routes.learn.
   */
  failed(key: string, line: Line, error: unknown): boolean {
    located(error, line.address);
    endsConnection(error) ? line.close() : this.giveBack(line);
    if (isWrongServer(error)) {
      // The idle connections lead to the same server.
      [...this.#idle.keys()].forEach((idle) => idle.address === line.address && idle.close());
    }
    return this.#routes.learn(key, line.node, error);
  }

  /**
   * Sends a short command once, and follows redirections. `onSent` is called when it is sent. Rejects with a
   * ServerError, with the library's error, or with CLOSED.
   */
  async command(key: string, args: Word[], onSent: () => void = () => {}): Promise<unknown> {
    for (let hop = 0; ; hop++) {
      const control = this.control(key);
      const line = control instanceof Line ? control : await control;
      try {
        // Nothing is sent on a connection that is closed already.
        line.closed || onSent();
        const reply = await line.send(args, REPLY_MS);
        this.replied(key, line);
        this.giveBack(line);
        return reply;
      } catch (error) {
        if (!this.failed(key, line, error) || hop === REDIRECTIONS) {
          throw error;
        }
      }
    }
  }

  /**
   * Sends a short command until there is a reply, for `forMs` at most. Never rejects: `error` is the last error if
   * there was no reply. `again`: the command was sent before, or now without a reply, and may have been executed then.
   * With `once` it is not sent again in that case.
   */
  async insist(key: string, args: Word[], forMs: number, pauses = new Pauses(), once = false): Promise<Result> {
    const until = now() + forMs;
    for (let again = false; ; ) {
      let sent = false;
      try {
        return { reply: await this.command(key, args, () => (sent = true)), again };
      } catch (error) {
        again ||= sent && !(error instanceof ServerError);
        if (!isTransient(error) || now() >= until || (once && again)) {
          return { error, again };
        }
      }
      try {
        await pauses.wait(this.#closing.signal, until - now());
      } catch (error) {
        return { error, again };
      }
    }
  }

  /**
   * Sends a short command for which the program waits: it gets the reply within REPLY_MS, or the error. With `once` it
   * is not sent again if it may have been executed.
   */
  async request(key: string, args: Word[], once: boolean): Promise<unknown> {
    const silent = () => this.timeoutError('reply from', REPLY_MS);
    // The last attempt begins earlier, so that its error is the result, and not that of the timer.
    const send = () => this.insist(key, args, REPLY_MS - MARGIN_MS, new Pauses(), once);
    const { reply, error } = await within(REPLY_MS, this.#closing.signal, silent, send);
    if (error !== undefined) {
      throw error;
    }
    return reply;
  }

  /** Warns that a wait of this lock goes on without a connection to the server, once in each outage. */
  warnOfOutage(lock: string, error: unknown): void {
    const address = addressOf(error) || this.#connector.addressOf(null);
    if (!this.#outages.has(address)) {
      this.#outages.add(address);
      const limit = this.connected ? '' : `, for ${secondsOf(this.connectTimeoutMs)} s at most if none is established`;
      warn(`${lock}: no connection to ${address} (${textOf(error)}); the wait goes on${limit}`);
    }
  }

  /** To be called when a wait is sent on a new connection: if that lasts, an outage has ended. */
  watchOutage(line: Line): void {
    if (this.#outages.has(line.address)) {
      after(LASTS_MS, () => line.closed || this.#outages.delete(line.address));
    }
  }

  /** Closes all connections; pending commands are rejected. */
  close(): void {
    this.#closing.abort(CLOSED);
    for (const line of this.#lines) {
      line.close();
    }
  }

  #control(key: string, node: Address | null): Line | Promise<Line> {
    const name = nameOf(node);
    const known = this.#controls.get(name);
    if (known !== undefined) {
      return known;
    }
    const forget = () => void this.#controls.delete(name);
    const connecting = this.#connect(key, node, false).then((line) => {
      line.shared = true;
      this.#controls.set(name, line);
      line.closed ? forget() : line.onClose.add(forget);
      return line;
    });
    this.#controls.set(name, connecting);
    connecting.catch(forget);
    return connecting;
  }

  async #connect(key: string, node: Address | null, ask: boolean): Promise<Line> {
    this.#closing.signal.throwIfAborted();
    const address = this.#connector.addressOf(node);
    try {
      const line = new Line(await this.#open(node), node, ask, address);
      this.connected = true;
      line.closed || this.#lines.add(line);
      line.onClose.add(() => {
        this.#lines.delete(line);
        this.#idle.delete(line);
      });
      return line;
    } catch (error) {
      this.#routes.learn(key, node, error);
      throw located(error, address);
    }
  }

  /**
   * The libraries' own time-outs end when the server has accepted the connection, so a server that then does not
   * respond needs another one.
   */
  async #open(node: Address | null): Promise<Connection> {
    const { connectTimeoutMs } = this;
    const silent = () => this.timeoutError('connection to', connectTimeoutMs, node);
    let opening: Promise<Connection> | undefined;
    const open = (stop: AbortSignal) => (opening = this.#connector.connect(node, stop, connectTimeoutMs));
    try {
      return await within(connectTimeoutMs, this.#closing.signal, silent, open);
    } catch (error) {
      opening?.then((late) => late.close(), () => {});
      throw error;
    }
  }

  /** The error of a server that was silent for `ms`. */
  timeoutError(what: 'connection to' | 'reply from', ms: number, node: Address | null = null): Error {
    const text = `no ${what} ${this.#connector.addressOf(node)} within ${secondsOf(ms)} s`;
    return Object.assign(new Error(text), { code: 'ETIMEDOUT' });
  }
}
