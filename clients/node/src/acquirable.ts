import { checkFunction, checkOptions, type Names } from './command.js';
import { NotAcquired } from './errors.js';
import { Hold, type Holding } from './hold.js';
import { withHolds } from './reentry.js';
import { Deadline } from './time.js';

/** How one acquisition waits. */
export interface WaitOptions {
  /** How long to wait at most, in ms; 0: only try. Without it there is no limit. */
  waitMs?: number | undefined;
  /**
   * Gives the wait up when it is aborted; nothing is left behind on the server. It does not affect a lock that is held.
   */
  signal?: AbortSignal | undefined;
}

export const WAIT_OPTIONS: Names<WaitOptions> = { waitMs: true, signal: true };

/** Until when a wait with these options lasts. Throws for invalid ones. */
export function deadlineOf(options: WaitOptions): Deadline {
  checkOptions(options, WAIT_OPTIONS);
  return new Deadline(options.waitMs);
}

/** `named`: the error of a wait that has timed out names the holders. */
export type Acquire = (deadline: Deadline, signal: AbortSignal | undefined, named: boolean) => Promise<Holding>;

/** What can be acquired, any number of times: each acquisition has an owner of its own. */
export class Acquirable {
  readonly #acquire: Acquire;

  /** @internal */
  constructor(acquire: Acquire) {
    this.#acquire = acquire;
  }

  /**
   * Waits for the lock. Rejects with NotAcquired if it could not be acquired in time, with the signal's reason when
   * that is aborted, with Deadlock, NoReplicas, Refused, or with the library's error if no connection was ever
   * established. The caller must release the hold.
   */
  async acquire(options: WaitOptions = {}): Promise<Hold> {
    return new Hold(await this.#acquire(deadlineOf(options), options.signal, true));
  }

  /**
   * The same as acquire() with `waitMs: 0`, but null if another owner holds the lock. If the server cannot be reached,
   * this rejects with the library's error.
   */
  async tryAcquire(options: Pick<WaitOptions, 'signal'> = {}): Promise<Hold | null> {
    checkOptions(options, { signal: true });
    try {
      return new Hold(await this.#acquire(new Deadline(0), options.signal, false));
    } catch (error) {
      if (error instanceof NotAcquired) {
        return null;
      }
      throw error;
    }
  }

  /**
   * Runs `body` while the lock is held, and resolves to what it returns. Rejects as acquire() does; with the body's own
   * error if it fails, whether or not the lock was lost; and with NotHeld if the lock was lost while the body ran.
   * `hold.signal` notifies the body of a loss.
   */
  async run<T>(body: (hold: Hold) => Promise<T> | T, options: WaitOptions = {}): Promise<T> {
    checkFunction('body', body);
    const holding = await this.#acquire(deadlineOf(options), options.signal, true);
    const hold = new Hold(holding);
    let result: T;
    try {
      result = await withHolds(holding.keepers, () => body(hold));
    } catch (error) {
      await hold[Symbol.asyncDispose]().catch(() => {});
      throw error;
    }
    await hold[Symbol.asyncDispose]();
    return result;
  }
}
