import type { SubjectKind } from './errors.js';
import type { Keeper } from './keeper.js';

/** Releases the holds that the program has forgotten, and warns of them. */
const forgotten = new FinalizationRegistry<Entry>((entry) => entry.released || entry.keeper.forgotten());

/** One use of a keeper by a Hold. It does not refer to the Hold, which can be collected. */
interface Entry {
  keeper: Holding;
  released: boolean;
}

/** What keeps a lock that is held, and what Hold needs of it. A lock that was entered again has several entries. */
export interface Holding {
  readonly kind: SubjectKind;
  readonly keys: readonly string[];
  readonly owner: string;
  readonly token: number | null;
  readonly permits: number;
  /** The members of a combined lock. */
  readonly members: readonly Holding[];
  /** The holds of single locks that it consists of. */
  readonly keepers: readonly Keeper[];
  readonly isLost: boolean;
  /** Something is left to do when the hold is forgotten: otherwise its lease expires soon. */
  readonly isKept: boolean;
  /** Begins the background work, once. It does not refer to the hold. */
  begin(): void;
  /** The hold is in use from now on, even if nothing else refers to it. */
  signalFor(hold: Hold): AbortSignal;
  /** The error of what is done with the hold after it has ended. */
  notHeld(): unknown;
  renew(leaseMs?: number): Promise<void>;
  guard(command: readonly string[]): Promise<unknown>;
  /** Ends one entry; the last one releases the lock. Rejects with NotHeld if it was released or lost before. */
  release(): Promise<void>;
  /** The Hold was collected. */
  forgotten(): void;
}

/**
 * A lock that is held. Its lease is renewed until it is released or lost. A hold does not keep the process alive, and
 * lasts at most for its lease after the process has ended. One that is garbage-collected is released, with a warning,
 * unless its signal was used, or nothing renews it.
 */
export class Hold implements AsyncDisposable {
  readonly kind: SubjectKind;
  /** The keys on the server. */
  readonly keys: readonly string[];
  /** The owner's name, `host:pid:random`, unique for each acquisition; for LOCK.GUARD, and in LOCK.INFO. */
  readonly owner: string;
  /** The fencing token: a number that only increases for this lock. Null if none was requested. */
  readonly token: number | null;
  /** How many permits of a semaphore; 1 for locks. */
  readonly permits: number;

  /** The holds of the members of a combined lock, for their tokens and for guard(); empty for other locks. */
  readonly holds: readonly Hold[];

  readonly #keeper: Holding;
  readonly #entry: Entry;
  /** The hold of the combined lock that this is a member of: the program that remembers one of them remembers all. */
  readonly #combined: Hold | undefined;

  /** @internal */
  constructor(keeper: Holding, combined?: Hold) {
    this.#keeper = keeper;
    this.#combined = combined;
    this.#entry = { keeper, released: false };
    this.kind = keeper.kind;
    this.keys = keeper.keys;
    this.owner = keeper.owner;
    this.token = keeper.token;
    this.permits = keeper.permits;
    this.holds = keeper.members.map((member) => new Hold(member, this));
    // The program waits for the grant, so all that can be done later is done later.
    setImmediate(() => {
      if (this.#combined === undefined && keeper.isKept && !this.#entry.released) {
        forgotten.register(this, this.#entry, this.#entry);
      }
      keeper.begin();
    });
  }

  /**
   * Aborted when the lock is lost, once, with a NotHeld as the reason; never after an orderly release. From its first
   * use on the server notifies this hold of a loss, unless the option `watch` is false, and the hold is not released
   * when it is garbage-collected. An error that a listener throws is an uncaught exception, as with any AbortSignal.
   */
  get signal(): AbortSignal {
    return this.#keeper.signalFor(this);
  }

  /** Whether the lock is known to be lost. */
  get isLost(): boolean {
    return this.#keeper.isLost;
  }

  /**
   * Renews the lease now. With `leaseMs` the hold has this lease from now on, also for automatic renewals: a longer one
   * from the reply on, a shorter one at once, also if the reply gets lost. Without it, this checks that the lock is still
   * held; a session has no other form. It is sent when the renewal before it has ended. Rejects with NotHeld if the
   * lock is lost, otherwise as short requests do.
   */
  async renew(leaseMs?: number): Promise<void> {
    this.#checkHeld();
    await this.#keeper.renew(leaseMs);
  }

  /**
   * Runs a command if the lock is still held at that moment, and resolves to its reply, as the library returns it. Of a
   * multi-key lock the first key is checked; a combined lock has this only in its `holds`. Rejects with NotHeld if the lock is lost. After a lost connection it is not
   * repeated, because it may have been executed: this rejects with the library's error.
   */
  async guard(command: string, ...args: (string | number)[]): Promise<unknown> {
    this.#checkHeld();
    return this.#keeper.guard([command, ...args.map(String)]);
  }

  #checkHeld(): void {
    if (this.#entry.released || this.isLost) {
      throw this.#keeper.notHeld();
    }
  }

  /**
   * Releases the lock; if it was entered again, with the last release. After connection errors this is repeated for the
   * rest of the lease. Rejects with NotHeld if the lock was lost or released before, and with the library's error if the
   * server could not be reached.
   */
  async release(): Promise<void> {
    if (this.#entry.released) {
      throw this.#keeper.notHeld();
    }
    this.#entry.released = true;
    forgotten.unregister(this.#entry);
    await this.#keeper.release();
  }

  /**
   * Releases the lock, unless release() was called. If the block fails too, its error is the `suppressed` of a
   * SuppressedError: see withLock.
   */
  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#entry.released) {
      await this.release();
    }
  }
}
