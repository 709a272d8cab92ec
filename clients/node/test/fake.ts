import { after, before } from 'node:test';

import type { Address, Connection, Connector, Word } from '../src/connector.js';

// The package's own timers do not keep the process alive, and these connections are not sockets.
let alive: NodeJS.Timeout;
before(() => void (alive = setInterval(() => {}, 1_000)));
after(() => clearInterval(alive));

/** The replies of a connection: a reply, a promise of one, or an error that is thrown. */
export type Answers = (args: string[], connection: FakeConnection) => unknown;

/** A connection without a server. */
export class FakeConnection implements Connection {
  readonly node: Address | null;
  closed = false;
  alive = true;
  readonly #answers: Answers;
  readonly listeners: (() => void)[] = [];
  readonly #rejects = new Set<(error: Error) => void>();

  constructor(node: Address | null, answers: Answers) {
    this.node = node;
    this.#answers = answers;
  }

  send(words: Word[]): Promise<unknown> {
    const args = words.map(String);
    return new Promise((resolve, reject) => {
      if (this.closed) {
        reject(new Error('connection lost'));
        return;
      }
      this.#rejects.add(reject);
      Promise.resolve()
        .then(() => this.#answers(args, this))
        .then(resolve, reject);
    });
  }

  close(): void {
    if (!this.closed) {
      this.closed = true;
      this.#rejects.forEach((reject) => reject(new Error('connection lost')));
      this.listeners.forEach((listener) => listener());
    }
  }

  onClose(listener: () => void): void {
    this.closed ? listener() : this.listeners.push(listener);
  }

  keepAlive(yes: boolean): void {
    this.alive = yes;
  }
}

/** A connector that opens such connections and records all commands. */
export class Fake implements Connector {
  name = 'server:6379';
  prefix = '';
  readonly addressOf = (node: Address | null) => (node === null ? 'server:6379' : `${node.host}:${node.port}`);
  nodes: (() => Address[]) | null = null;
  readonly connections: FakeConnection[] = [];
  readonly sent: string[][] = [];
  readonly #answers: Answers;

  constructor(answers: Answers) {
    this.#answers = answers;
  }

  async connect(node: Address | null, signal: AbortSignal): Promise<Connection> {
    signal.throwIfAborted();
    const connection = new FakeConnection(node, (args, from) => {
      this.sent.push(args);
      return this.#answers(args, from);
    });
    this.connections.push(connection);
    return connection;
  }

  /** The commands of this name that were sent. */
  of(name: string): string[][] {
    return this.sent.filter(([word]) => word === name);
  }
}

/** A promise, and what settles it. */
export function later<Value = unknown>(): { promise: Promise<Value>; resolve: (value: Value) => void } {
  let resolve!: (value: Value) => void;
  const promise = new Promise<Value>((settle) => (resolve = settle));
  return { promise, resolve };
}

/** A promise that nothing settles. */
export function never(): Promise<never> {
  return new Promise(() => {});
}

/** Waits until this is true. */
export async function until(condition: () => boolean): Promise<void> {
  while (!condition()) {
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

/** Blocks the event loop. */
export function block(ms: number): void {
  for (const start = performance.now(); performance.now() - start < ms; ) {}
}
