import { checkCount, checkDelay, checkFunction, checkKey, checkOptions, checkPositive } from './command.js';
import type { Word } from './connector.js';
import { Consumer, type ConsumeOptions, type Handler } from './consumer.js';
import type { Core } from './core.js';
import type { Subject } from './errors.js';
import { triesOf } from './job.js';

/** A pending element of a delayed queue. */
export interface Pending {
  id: string;
  /** The time until it is due, in ms; 0 if it is due but could not be delivered yet. */
  leftMs: number;
  /** The value; null if another client has removed it. */
  value: string | null;
}

/** A delayed queue: the server pushes each value to the list when its delay has passed. */
export class DelayedQueue {
  readonly #core: Core;
  readonly #list: string;
  readonly #subject: Subject;

  /** @internal */
  constructor(core: Core, list: string) {
    checkKey(list);
    this.#core = core;
    this.#list = core.connector.prefix + list;
    this.#subject = { kind: 'queue', keys: [this.#list] };
  }

  /**
   * Schedules a value. Resolves to its id: the given one, which replaces what is pending under it, or one that the server
   * generates. Without a given id this is not repeated if the connection is lost: it rejects with the library's error, and
   * the value may have been scheduled.
   */
  async push(value: string | Uint8Array, delayMs: number, options: { id?: string | undefined } = {}): Promise<string> {
    checkDelay('delayMs', delayMs);
    checkOptions(options, { id: true });
    const { id } = options;
    if (id !== undefined && (typeof id !== 'string' || id === '' || id === '*')) {
      throw new RangeError(`id must be a non-empty string other than '*', not '${String(id)}'`);
    }
    if (typeof value !== 'string' && !(value instanceof Uint8Array)) {
      throw new TypeError(`value must be a string or bytes, not ${String(value)}`);
    }
    const bytes = Buffer.from(value as string);
    if (triesOf(bytes) !== null) {
      throw new RangeError('value must not begin as those that a consumer has tried: lock-so:<digits>:');
    }
    return String(await this.#send(['DELAY.PUSH', this.#list, id ?? '*', String(delayMs), bytes], id === undefined));
  }

  /**
   * Removes a pending element. False if it is not pending: it was delivered, or cancelled before. This is not repeated if
   * the connection is lost.
   */
  async cancel(id: string): Promise<boolean> {
    return Number(await this.#send(['DELAY.CANCEL', this.#list, id], true)) > 0;
  }

  /** The elements that are due first; 10 by default. */
  async list(count?: number): Promise<Pending[]> {
    if (count !== undefined) {
      checkCount('count', count);
    }
    const reply = await this.#send(['DELAY.LIST', this.#list, ...(count === undefined ? [] : ['COUNT', String(count)])]);
    const elements = reply as [id: Buffer, left: number, value: Buffer | null][];
    return elements.map(([id, left, value]) => ({ id: String(id), leftMs: Number(left), value: value && String(value) }));
  }

  /**
   * Runs `handler` for one element of the list after the other, until `signal` is aborted, and then rejects with its reason;
   * or until these Locks are closed. An element of which the handler rejects, or whose consumer dies, is delivered again.
   * So an element can be handled twice.
   */
  async consume(handler: Handler, options: ConsumeOptions = {}): Promise<never> {
    checkFunction('handler', handler);
    checkOptions(options, { timeoutMs: true, maxTries: true, backoffMs: true, signal: true });
    const { timeoutMs = 60_000, maxTries = 5, backoffMs = 1_000, signal } = options;
    checkPositive('timeoutMs', timeoutMs);
    checkCount('maxTries', maxTries);
    checkDelay('backoffMs', backoffMs);
    const consumer = new Consumer(this.#core, this.#subject, this.#list, handler, { timeoutMs, maxTries, backoffMs });
    return this.#core.during(consumer, signal, () => {
      const work = consumer.run();
      this.#core.background(work.catch(() => {}));
      return work;
    });
  }

  #send(args: Word[], once = false): Promise<unknown> {
    return this.#core.request(this.#subject, this.#list, args, once);
  }
}
