import { randomBytes } from 'node:crypto';

import { REPLY_MS, type Line } from './connections.js';
import type { Word } from './connector.js';
import type { Core } from './core.js';
import { endsConnection, isModuleMissing, isTransient, nameOfSubject, ServerError, textOf, typed, warn, type Subject } from './errors.js';
import { besides, format, parse, type Element } from './job.js';
import { Ending, now, Pauses } from './time.js';

/** How long BLMOVE blocks at most, and how often the consumer looks for elements that others have left behind, in ms. */
const ROUND_MS = 1_000;

/** The shortest and the longest pause after a command was refused, in ms. */
const PAUSE_MS = [100, 1_000] as const;

/** The longest delay of a try, in ms: ten years. */
const MOST_DELAY_MS = 10 * 365 * 86_400_000;

/** How often a delay doubles at most: more would be longer than that, and in the end no number. */
const MOST_DOUBLINGS = 60;

/** An element that a handler gets. */
export interface Job {
  readonly value: string;
  /** The value, if it is not text. */
  readonly bytes: Buffer;
  /** Which try this is; 1 is the first. */
  readonly tries: number;
  /** Aborted when the consumer is to end. If the handler then rejects with the reason, this try is not counted. */
  readonly signal: AbortSignal;
}

/** Handles a job. If it rejects, the job is tried again later. */
export type Handler = (job: Job) => Promise<unknown> | unknown;

/** The limits of a consumer. */
export interface Limits {
  timeoutMs: number;
  maxTries: number;
  backoffMs: number;
}

/** The options of DelayedQueue.consume. */
export interface ConsumeOptions {
  /** How long the handler may take, in ms; 60000 by default. After this time the element is delivered again. */
  timeoutMs?: number | undefined;
  /** How often an element is tried; 5 by default. After that it is pushed to the list of failed elements. */
  maxTries?: number | undefined;
  /** The pause after the first failed try, in ms; 1000 by default. It doubles with each further one. */
  backoffMs?: number | undefined;
  /** Ends the consumer, and aborts the signal of the job that runs. */
  signal?: AbortSignal | undefined;
}

/** An element that belongs to this consumer until it times out. `tries` includes this one. */
interface Claim extends Element {
  id: string;
  until: number;
}

/** A consumer of a list, for which the server keeps what a consumer that died had begun. */
export class Consumer {
  readonly #core: Core;
  readonly subject: Subject;
  readonly #name: string;
  readonly #list: string;
  readonly #taken: string;
  readonly #handler: Handler;
  readonly #limits: Limits;
  readonly #stop = new Ending();
  /** The connection on which it waits. */
  #line: Line | undefined;
  /** How many connection errors there were since the last reply. */
  #failures = 0;
  /** The elements of the last look at those that were taken, and how often each was there. */
  #seen = new Map<string, number>();
  #looked = -Infinity;

  constructor(core: Core, subject: Subject, list: string, handler: Handler, limits: Limits) {
    this.#core = core;
    this.subject = subject;
    this.#name = nameOfSubject(subject);
    this.#list = list;
    this.#taken = besides(list, 'taken');
    this.#handler = handler;
    this.#limits = limits;
  }

  abort(reason: unknown): void {
    this.#stop.end(reason);
  }

  /** Consumes until abort(), and then rejects with its reason; or with an error that shows that it cannot go on. */
  async run(): Promise<never> {
    const { connections } = this.#core;
    const unconnected = now() + connections.connectTimeoutMs;
    const pauses = new Pauses();
    try {
      while (!this.#stop.hasEnded) {
        try {
          await this.#round();
          pauses.reset();
        } catch (error) {
          if (isFinal(error) || (!connections.connected && now() >= unconnected)) {
            throw this.#stop.hasEnded ? this.#stop.reason : typed(this.subject, error);
          }
          await this.#recover(error, pauses);
        }
      }
      throw this.#stop.reason;
    } finally {
      if (this.#line !== undefined) {
        connections.giveBack(this.#line);
      }
    }
  }

  /** Warns of an outage or of a refusal, and pauses. */
  async #recover(error: unknown, pauses: Pauses): Promise<void> {
    if (this.#stop.hasEnded) {
      return;
    }
    if (isTransient(error)) {
      // One lost connection is no outage yet.
      if (endsConnection(error) && ++this.#failures > 1) {
        this.#core.connections.warnOfOutage(this.#name, error);
      }
      await pauses.wait(this.#stop.signal).catch(() => {});
    } else {
      this.#warn(`the server refuses a command (${textOf(error)}); trying again`);
      const [least, most] = PAUSE_MS;
      const pause = new Pauses(Infinity, Math.min(Math.max(this.#limits.backoffMs, least), most));
      await pause.wait(this.#stop.signal).catch(() => {});
    }
  }

  async #round(): Promise<void> {
    // First, because an attempt to connect fails at once if there is no server, and run() counts the time.
    const line = (this.#line ??= await this.#core.connections.takeToWait(this.#list, this.#stop));
    await this.#sweep();
    const element = await this.#take(line);
    if (element === null) {
      return;
    }
    if (this.#stop.hasEnded) {
      await this.#putBack(element);
      return;
    }
    const { value, tries } = parse(element);
    const claim = { value, tries: tries + 1, id: newId(), until: now() + this.#limits.timeoutMs };
    if (await this.#move(element, claim, this.#limits.timeoutMs)) {
      await (claim.tries > this.#limits.maxTries ? this.#giveUp(claim) : this.#handle(claim));
    }
  }

  /** The next element, which is then in the list of those that were taken; null if there is none. */
  async #take(line: Line): Promise<Buffer | null> {
    const { connections } = this.#core;
    const blockMs = Math.min(connections.maxBlockMs, ROUND_MS);
    try {
      connections.watchOutage(line);
      const args = ['BLMOVE', this.#list, this.#taken, 'LEFT', 'RIGHT', String(blockMs / 1_000)];
      const reply = await line.send(args, blockMs + REPLY_MS);
      connections.replied(this.#list, line);
      this.#failures = 0;
      return reply as Buffer | null;
    } catch (error) {
      this.#line = undefined;
      connections.failed(this.#list, line, error);
      throw error;
    }
  }

  /**
   * Moves an element that was taken to the queue. The push comes first: if the consumer dies in between, the element is
   * there twice, and not lost. False if another consumer has moved it.
   */
  async #move(element: Buffer, { id, ...stored }: Element & { id: string }, delayMs: number): Promise<boolean> {
    await this.#send(this.#push(id, delayMs, stored));
    const args = ['LREM', this.#taken, '1', element];
    const { reply, error, again } = await this.#core.connections.insist(this.#list, args, REPLY_MS, new Pauses(), true);
    // Sent again it could remove an equal element that another consumer has just taken. So it counts as removed without
    // a reply; if it was not, it is delivered twice.
    if (error !== undefined && !again) {
      throw error;
    }
    const moved = again || Number(reply) > 0;
    if (!moved) {
      await this.#send(this.#cancel(id));
    }
    return moved;
  }

  #putBack(element: Buffer): Promise<boolean> {
    return this.#move(element, { ...parse(element), id: newId() }, 0);
  }

  /** Puts back what was taken before the last look, and is still there: its consumer has died. */
  async #sweep(): Promise<void> {
    if (now() - this.#looked < ROUND_MS) {
      return;
    }
    const elements = (await this.#send(['LRANGE', this.#taken, '0', '-1'])) as Buffer[];
    this.#looked = now();
    const before = this.#seen;
    this.#seen = new Map();
    for (const element of elements) {
      const name = element.toString('latin1');
      const count = (this.#seen.get(name) ?? 0) + 1;
      this.#seen.set(name, count);
      if (count <= (before.get(name) ?? 0)) {
        await this.#putBack(element);
      }
    }
  }

  async #giveUp(claim: Claim): Promise<void> {
    this.#warn(`a job has failed ${this.#limits.maxTries} times, and is given up`);
    if (await this.#settle(claim, ['RPUSH', besides(this.#list, 'failed'), claim.value])) {
      await this.#settle(claim, this.#cancel(claim.id));
    }
  }

  async #handle(claim: Claim): Promise<void> {
    const { id, value, tries, until } = claim;
    const { signal } = this.#stop;
    try {
      await this.#handler({ value: String(value), bytes: value, tries, signal });
    } catch (error) {
      const isStopped = signal.aborted && isBecauseOf(error, signal.reason);
      isStopped || this.#warn(`try ${tries} of ${this.#limits.maxTries} of a job failed: ${textOf(error)}`);
      if (now() >= until) {
        return; // the server has delivered it again
      }
      if (isStopped) {
        await this.#settle(claim, this.#push(id, 0, { value, tries: tries - 1 }));
      } else {
        const delayMs = Math.min(this.#limits.backoffMs * 2 ** Math.min(tries - 1, MOST_DOUBLINGS), MOST_DELAY_MS);
        await this.#settle(claim, this.#push(id, delayMs, claim));
      }
      return;
    }
    const result = await this.#settle(claim, this.#cancel(id));
    if (result !== null && Number(result.reply) === 0 && !(result.again && now() < until)) {
      this.#warn(`a job took longer than its timeout of ${this.#limits.timeoutMs} ms: it will run again`);
    }
  }

  /** Sends a command about a claim, until the claim has timed out; null if there was no reply. */
  async #settle({ until }: Claim, args: Word[]): Promise<{ reply?: unknown; again: boolean } | null> {
    const result = await this.#core.connections.insist(this.#list, args, until - now());
    if (result.error === undefined) {
      return result;
    }
    this.#warn(`the result of a job could not be recorded (${textOf(result.error)}): it will run again`);
    return null;
  }

  /** Sends a short command that can be repeated. */
  #send(args: Word[]): Promise<unknown> {
    return this.#core.connections.request(this.#list, args, false);
  }

  #push(id: string, delayMs: number, stored: Element): Word[] {
    return ['DELAY.PUSH', this.#list, id, String(delayMs), format(stored)];
  }

  #cancel(id: string): Word[] {
    return ['DELAY.CANCEL', this.#list, id];
  }

  #warn(text: string): void {
    warn(`${this.#name}: ${text}`);
  }
}

function newId(): string {
  return `claim-${randomBytes(8).toString('hex')}`;
}

/** Error replies after which trying again is useless. */
function isFinal(error: unknown): boolean {
  return (
    error instanceof ServerError &&
    (error.isFinal || ['WRONGTYPE', 'NOPERM'].includes(error.code) || isModuleMissing(error))
  );
}

/** Whether an error is that of a signal which was aborted for this reason; Node's own functions wrap it. */
function isBecauseOf(error: unknown, reason: unknown): boolean {
  return error === reason || (error instanceof Error && (error.name === 'AbortError' || error.cause === reason));
}
