import { acquire, cancel, firstKey, info, release, type Spec } from './command.js';
import type { Connections, Line } from './connections.js';
import { isNotHeld, NotAcquired } from './errors.js';
import { holdersIn } from './info.js';
import { newOwner } from './owner.js';
import { after, atMost, now, Pauses, type Deadline } from './time.js';
import { GIVING_UP_MS, Waiting } from './waiting.js';

/** How late a wait ends that also requests the holders, in ms. */
const NAMED_MS = 90;

/** Within this time, in ms, a command arrives that was on its way when its connection was cut. */
const STRAGGLER_MS = 100;

/** A granted lock. */
export interface Grant {
  owner: string;
  /** The fencing token, null without one. */
  token: number | null;
  /** When the lease began, or earlier; by now(). */
  since: number;
  /** False after a long wait: the lease may have begun before `since`. */
  exact: boolean;
  /** The connection to which a session is bound, or on which a renewal waits for replicas; otherwise null. */
  line: Line | null;
}

/** One request for a lock, with an owner of its own. */
export class Acquisition extends Waiting<Grant> {
  readonly #spec: Spec;
  readonly #key: string;
  readonly #owner: string;
  readonly #named: boolean;

  /**
   * `background` is called with the work that continues after run() has ended. NotAcquired names the holders only with
   * `named`.
   */
  constructor(connections: Connections, spec: Spec, background: (work: Promise<void>) => void, named: boolean) {
    const owner = newOwner();
    const request = {
      subject: spec,
      key: firstKey(spec),
      command: (block: number | null) => acquire(spec, owner, block),
      shares: !spec.session && spec.replicas === undefined,
      keepsPlace: spec.kind === 'fair',
      extraMs: spec.replicas?.ms ?? 0,
    };
    super(connections, request, background);
    this.#spec = spec;
    this.#key = request.key;
    this.#owner = owner;
    this.#named = named;
  }

  protected async timedOut({ waitMs, until }: Deadline, work: Promise<void>, cause: unknown): Promise<never> {
    const left = until + NAMED_MS - now();
    const holders = new Set<string>();
    const found = this.#named && cause === undefined && left > 0 ? this.#findHolders(holders) : null;
    await atMost(Math.max(left, 0), Promise.all([found, work]));
    throw new NotAcquired(this.#spec, waitMs, [...holders], cause);
  }

  async #findHolders(holders: Set<string>): Promise<void> {
    const find = async (key: string) => {
      holdersIn(await this.connections.command(key, info(key))).forEach((holder) => holders.add(holder));
    };
    await Promise.allSettled(this.#spec.keys.map(find));
  }

  /**
   * The reply is not awaited any more; the connection can be used again when the reply has arrived soon. It is not if
   * a session may be bound to it.
   */
  protected leave(line: Line, pending: Promise<unknown>): void {
    const limit = line.shared ? undefined : after(GIVING_UP_MS, () => line.close());
    const replied = () => (this.#spec.session ? line.close() : this.connections.giveBack(line));
    const failed = (error: unknown) => void this.connections.failed(this.#key, line, error);
    void pending.then(replied, failed).then(() => clearTimeout(limit));
  }

  protected granted(line: Line, reply: unknown, sent: number): Grant {
    const received = now();
    const exact = received - sent <= this.#spec.leaseMs / 3;
    const keeps = this.#spec.session || this.#spec.replicas !== undefined;
    if (!keeps) {
      this.connections.giveBack(line);
    }
    const token = this.#spec.fenced ? Number(reply) : null;
    return { owner: this.#owner, token, since: exact ? sent : received, exact, line: keeps ? line : null };
  }

  /**
   * Cancels the request on the server, whatever its result. Tries for the lease at most, and soon without keeping the
   * process alive; never rejects.
   */
  protected async giveUp(): Promise<void> {
    const until = now() + this.#spec.leaseMs;
    const pauses = new Pauses(GIVING_UP_MS);
    let ended = await this.#cancel(until, pauses);
    // The owner neither waits nor holds: the request may not have arrived yet, and only its reply shows that it has.
    const never = new AbortController().signal;
    for (pauses.reset(); !ended && this.pending !== null && now() < until; ) {
      let settled = false;
      const pending = this.pending.then(
        () => (settled = true),
        () => ((settled = true), (this.doubt = 'cut')),
      );
      await Promise.race([pending, pauses.wait(never)]);
      ended = await this.#cancel(until, pauses);
      if (settled) {
        break;
      }
    }
    if (ended && this.pending !== null) {
      // Its reply will arrive soon; then the connection can be used for the next wait.
      await atMost(STRAGGLER_MS, this.pending);
    }
    if (this.doubt === 'cut') {
      await atMost(STRAGGLER_MS, new Promise(() => {}));
      await this.#cancel(until, pauses);
    }
  }

  /** One LOCK.CANCEL that gets a reply. True if there was a wait to end or a hold to release. */
  async #cancel(until: number, pauses: Pauses): Promise<boolean> {
    const send = (args: string[]) => this.connections.insist(this.#key, args, Math.max(0, until - now()), pauses);
    const { reply } = await send(cancel(this.#spec, this.#owner));
    if (Number(reply ?? 0) > 0 || this.#spec.kind !== 'multi') {
      return Number(reply ?? 0) > 0;
    }
    const { error } = await send(release(this.#spec, this.#owner));
    return error === undefined && !isNotHeld(error);
  }
}
