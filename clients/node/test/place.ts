import { after, afterEach, before } from 'node:test';

import { Cut } from './cut.js';
import { TestServer } from './server.js';

/** A server for the tests of a file, without keys at the beginning of each. */
export class Place {
  server!: TestServer;
  readonly #open: (() => unknown)[] = [];

  constructor() {
    before(async () => void (this.server = await TestServer.start()));
    afterEach(() => this.#clear());
    after(() => this.server.stop());
  }

  /** Has something closed after the test. */
  closes<What>(what: What, close: (what: What) => unknown): What {
    this.#open.push(() => close(what));
    return what;
  }

  async #clear(): Promise<void> {
    await Promise.all(this.#open.splice(0).map((close) => close()));
    await this.server.until('k', (info) => !info?.waiting);
    await this.server.ask.flushall();
  }

  /** Has `holder` hold the lock `k`, by a connection that is always there. */
  async hold(): Promise<void> {
    await this.server.ask.call('LOCK.ACQUIRE', 'k', 'holder', 'PX', 60_000);
  }

  /** `holder` gives the lock `k` back. */
  async release(): Promise<void> {
    await this.server.ask.call('LOCK.RELEASE', 'k', 'holder');
  }

  /** The port of a proxy that loses the first answer to a command. */
  async cut(command: string): Promise<number> {
    const cut = this.closes(await Cut.start(this.server.port, command), (it) => it.stop());
    return cut.port;
  }
}

/** What a promise has come to so far. */
export async function soFar(promise: Promise<unknown>): Promise<unknown> {
  return Promise.race([promise, new Promise((resolve) => setImmediate(resolve, 'pending'))]);
}
