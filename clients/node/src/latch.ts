import { deadlineOf, type WaitOptions } from './acquirable.js';
import { checkCount, checkDelay, checkKey, checkOptions, checkPositive } from './command.js';
import type { Line } from './connections.js';
import type { Core } from './core.js';
import type { Subject } from './errors.js';
import { Waiting } from './waiting.js';

/** A latch: any number of clients wait until it has been counted down. One that was not set is open. */
export class Latch {
  readonly #core: Core;
  readonly #key: string;
  readonly #subject: Subject;

  /** @internal */
  constructor(core: Core, key: string) {
    checkKey(key);
    this.#core = core;
    this.#key = core.connector.prefix + key;
    this.#subject = { kind: 'latch', keys: [this.#key] };
  }

  /**
   * Sets the count, whatever it was; 0 opens the latch. With `leaseMs` it opens by itself after that time. This is not
   * repeated if the connection is lost, because that would undo what was counted down meanwhile.
   */
  async set(count: number, options: { leaseMs?: number | undefined } = {}): Promise<void> {
    checkDelay('count', count);
    checkOptions(options, { leaseMs: true });
    const { leaseMs } = options;
    if (leaseMs !== undefined) {
      checkPositive('leaseMs', leaseMs);
    }
    const lease = leaseMs === undefined ? [] : ['PX', String(leaseMs)];
    await this.#core.request(this.#subject, this.#key, ['LATCH.SET', this.#key, String(count), ...lease], true);
  }

  /**
   * Counts down, and resolves to what is left; at 0 the latch opens. If the connection is lost, this rejects with the
   * library's error, because the latch may have been counted down.
   */
  async countDown(by = 1): Promise<number> {
    checkCount('by', by);
    return Number(await this.#core.request(this.#subject, this.#key, ['LATCH.DOWN', this.#key, String(by)], true));
  }

  /** What is left; 0 if the latch is open. */
  async count(): Promise<number> {
    return Math.max(0, Number(await this.#core.request(this.#subject, this.#key, ['GET', this.#key])));
  }

  /**
   * Waits until the latch is open; resolves to false if it was not opened in time. It rejects and lasts as the wait for a
   * lock does.
   */
  async wait(options: WaitOptions = {}): Promise<boolean> {
    const deadline = deadlineOf(options);
    const waiting = new LatchWait(this.#core, this.#subject, this.#key);
    return this.#core.during(waiting, options.signal, () => waiting.run(deadline));
  }
}

/** A wait that leaves nothing behind on the server when its connection is closed. */
class LatchWait extends Waiting<boolean> {
  constructor({ connections, background }: Core, subject: Subject, key: string) {
    const command = (block: number | null) => ['LATCH.WAIT', key, ...(block === null ? [] : ['BLOCK', String(block)])];
    super(connections, { subject, key, command, shares: true, keepsPlace: false, extraMs: 0 }, background);
  }

  protected granted(line: Line): boolean {
    this.connections.giveBack(line);
    return true;
  }

  protected async timedOut(): Promise<boolean> {
    return false;
  }

  protected async giveUp(): Promise<void> {}

  protected leave(line: Line, pending: Promise<unknown>): void {
    pending.catch(() => {});
    line.shared || line.close();
  }
}
