import { Acquisition } from './acquisition.js';
import type { Spec } from './command.js';
import { Connections, type Settings } from './connections.js';
import type { Connector, Word } from './connector.js';
import { Closed, typed, type Subject } from './errors.js';
import { Keeper } from './keeper.js';
import { atMost, onAbort, type Deadline } from './time.js';

/** How long an aborted wait lasts at most while what it has acquired is released, in ms. */
const RELEASING_MS = 2_000;

/** Closes the connections of locks that are collected. */
const collected = new FinalizationRegistry<Connections>((connections) => connections.close());

/** What can be ended from outside. */
interface Abortable {
  readonly subject: Subject;
  abort(reason: unknown): void;
}

/** What is held. */
interface Closable {
  /** Releases it. Never rejects. */
  close(): Promise<void>;
}

/** What all objects of one client's Locks share. Each of them refers to it, so it is collected after them. */
export class Core {
  readonly connector: Connector;
  readonly connections: Connections;
  readonly #tasks = new Set<Abortable>();
  readonly #holds = new Set<Closable>();
  readonly #background = new Set<Promise<void>>();
  #closed: Promise<void> | undefined;

  constructor(connector: Connector, settings?: Settings) {
    this.connector = connector;
    this.connections = new Connections(connector, settings);
    collected.register(this, this.connections);
  }

  /** True after close(). */
  get isClosed(): boolean {
    return this.#closed !== undefined;
  }

  checkOpen(subject: Subject): void {
    if (this.isClosed) {
      throw new Closed(subject);
    }
  }

  /** Runs a task, which is aborted when `signal` is aborted, or when these locks are closed. */
  async during<Result>(task: Abortable, signal: AbortSignal | undefined, run: () => Promise<Result>): Promise<Result> {
    this.checkOpen(task.subject);
    signal?.throwIfAborted();
    const ignore = signal === undefined ? undefined : onAbort(signal, () => task.abort(signal.reason));
    this.#tasks.add(task);
    try {
      return await run();
    } finally {
      ignore?.();
      this.#tasks.delete(task);
    }
  }

  /** Acquires a lock. The error of a wait that has timed out names the holders if it is `named`. */
  async acquire(spec: Spec, deadline: Deadline, signal: AbortSignal | undefined, named: boolean): Promise<Keeper> {
    const request = new Acquisition(this.connections, spec, this.background, named);
    const grant = await this.during(request, signal, () => request.run(deadline));
    const keeper = new Keeper(this, spec, grant, (ended) => this.forget(ended));
    this.keep(keeper);
    if (request.aborted) {
      await atMost(RELEASING_MS, keeper.release());
      throw request.stop.reason;
    }
    return keeper;
  }

  /** close() releases this hold. */
  keep(hold: Closable): void {
    this.#holds.add(hold);
  }

  forget(hold: Closable): void {
    this.#holds.delete(hold);
  }

  /** Sends a short command for the program; see Connections.request. Rejects with the error for the user. */
  async request(subject: Subject, key: string, args: Word[], once = false): Promise<unknown> {
    this.checkOpen(subject);
    try {
      return await this.connections.request(key, args, once);
    } catch (error) {
      throw typed(subject, error);
    }
  }

  /** close() waits for this work. */
  readonly background = (work: Promise<void>): void => {
    this.#background.add(work);
    void work.finally(() => this.#background.delete(work));
  };

  /** See Locks.close. */
  close(timeoutMs: number): Promise<void> {
    this.#closed ??= this.#close(timeoutMs);
    return this.#closed;
  }

  async #close(timeoutMs: number): Promise<void> {
    for (const task of this.#tasks) {
      task.abort(new Closed(task.subject));
    }
    const work = [...this.#background, ...[...this.#holds].map((keeper) => keeper.close())];
    // By the next iteration of the event loop, the requests that were given up have added their work or their holds.
    await new Promise(setImmediate);
    work.push(...this.#background, ...[...this.#holds].map((keeper) => keeper.close()));
    await atMost(timeoutMs, Promise.allSettled(work));
    this.connections.close();
  }
}
