import { Acquirable } from './acquirable.js';
import { force, info, type Spec } from './command.js';
import type { Core } from './core.js';
import { infoOf, type LockInfo } from './info.js';
import { enter } from './reentry.js';

/** How many waiters of each key info() shows. */
const WAITERS = 10;

/** A lock that can be acquired, any number of times: each acquisition has an owner of its own. */
export class Lock extends Acquirable {
  readonly #core: Core;
  readonly #spec: Spec;

  /** @internal */
  constructor(core: Core, spec: Spec) {
    super(async (deadline, signal, named) => {
      core.checkOpen();
      signal?.throwIfAborted();
      return enter(core, spec) ?? core.acquire(spec, deadline, signal, named);
    });
    this.#core = core;
    this.#spec = spec;
  }

  /**
   * Whether any owner holds one of the keys; of a semaphore, whether any permit is taken. As info() and force(), this
   * rejects with the library's error if there is no reply within 2 s.
   */
  async locked(): Promise<boolean> {
    return (await this.#info(0)).holders.length > 0;
  }

  /** Who holds the lock, and who waits for it. */
  info(): Promise<LockInfo> {
    return this.#info(WAITERS);
  }

  /**
   * Frees the lock, whoever holds it: a tool for operators. Its holder continues to work until it is notified of the loss.
   * Resolves to whether anything was held.
   */
  async force(): Promise<boolean> {
    const freed = await this.#each((key) => force(key), true);
    return freed.some(({ reply }) => Number(reply) > 0);
  }

  async #info(waiters: number): Promise<LockInfo> {
    return infoOf(await this.#each((key) => info(key, waiters)));
  }

  /** The replies to a command about each key. */
  #each(command: (key: string) => string[], once = false): Promise<{ key: string; reply: unknown }[]> {
    const ask = async (key: string) => ({ key, reply: await this.#core.request(this.#spec, key, command(key), once) });
    return Promise.all([...new Set(this.#spec.keys)].map(ask));
  }
}
