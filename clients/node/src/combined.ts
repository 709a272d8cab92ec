import calculateSlot from 'cluster-key-slot';

import { checkPositive, firstKey, type Mode, type Spec } from './command.js';
import type { Core } from './core.js';
import { nameOfSubject, NotAcquired, NotHeld, warn, type SubjectKind } from './errors.js';
import type { Hold, Holding } from './hold.js';
import type { Keeper } from './keeper.js';
import { enter } from './reentry.js';
import { compareBytes, smallest } from './routes.js';
import { after, atMost, Ending, now, onAbort, type Deadline } from './time.js';

/** A lock of one server, in a cluster of one slot: it is acquired by one request. */
export interface Part {
  core: Core;
  spec: Spec;
}

/** What a Lock consists of. */
export type Member = Part | { kind: SubjectKind; members: readonly Member[] };

/** A wait that lasts for so long, in ms, is notified of the loss of what was acquired before; a watch is expensive. */
const WATCH_AFTER_MS = 100;

/** How late a wait ends that has to release what it has acquired, in ms. */
const RELEASED_MS = 95;

/** How long an error waits at most until that is released, in ms. */
const RELEASING_MS = 2_000;

/** The reason of an abort: what was acquired before was lost. */
const LOST = Symbol('lost');

/** The parts in the order in which they are acquired. It is the same in all programs, so that no two of them wait for each other. */
export function partsOf(member: Member): readonly Part[] {
  if (!('members' in member)) {
    return [member];
  }
  const place = ({ core, spec }: Part) => ({
    name: core.connector.name,
    slot: slotOf(core, firstKey(spec)),
    key: smallest(spec.keys),
    kind: spec.kind,
  });
  return member.members.flatMap(partsOf).sort((one, other) => {
    const [a, b] = [place(one), place(other)];
    return compareBytes(a.name, b.name) || a.slot - b.slot || compareBytes(a.key, b.key) || compareBytes(a.kind, b.kind);
  });
}

function slotOf({ connector }: Core, key: string): number {
  return connector.nodes === null ? 0 : calculateSlot(key);
}

/** A lock of these Locks: one part, or one for each slot. */
export function memberOf(core: Core, spec: Spec): Member {
  const slots = new Map<number, { keys: string[]; modes: Mode[] }>();
  spec.keys.forEach((key, at) => {
    const slot = slotOf(core, key);
    const { keys, modes } = slots.get(slot) ?? { keys: [], modes: [] };
    slots.set(slot, { keys: [...keys, key], modes: [...modes, ...(spec.modes ?? []).slice(at, at + 1)] });
  });
  if (slots.size === 1) {
    return { core, spec };
  }
  const members = [...slots].sort(([one], [other]) => one - other).map(([, { keys, modes }]) => {
    if (keys.length > 1) {
      return { core, spec: { ...spec, keys, modes: spec.modes && modes } };
    }
    const kind = modes[0] === undefined ? 'lock' : modes[0] === 'READ' ? 'read' : 'write';
    return { core, spec: { ...spec, kind, keys, modes: undefined } } satisfies Part;
  });
  return { kind: spec.kind, members };
}

/** Acquires all of the parts, in this order, or none. */
export async function acquireAll(
  member: Member,
  parts: readonly Part[],
  deadline: Deadline,
  signal: AbortSignal | undefined,
  named: boolean,
): Promise<Holding> {
  if (!('members' in member)) {
    return acquireAfter([], member, deadline, signal, named);
  }
  for (;;) {
    const keepers = new Map<Part, Keeper>();
    try {
      for (const part of parts) {
        keepers.set(part, await acquireAfter([...keepers.values()], part, deadline, signal, named));
      }
      if (![...keepers.values()].some(({ isLost }) => isLost)) {
        return holdingOf(member, keepers);
      }
      throw LOST;
    } catch (error) {
      const ms = deadline.until + RELEASED_MS - now();
      await atMost(Math.max(0, Math.min(ms, RELEASING_MS)), releaseAll([...keepers.values()]));
      if (error !== LOST) {
        throw error;
      }
      if (deadline.leftMs === 0) {
        throw new NotAcquired(parts[0]!.spec, deadline.waitMs, []);
      }
    }
  }
}

/** Acquires a part. If one of those that were acquired before is lost meanwhile, this rejects with LOST. */
async function acquireAfter(
  before: readonly Keeper[],
  { core, spec }: Part,
  deadline: Deadline,
  signal: AbortSignal | undefined,
  named: boolean,
): Promise<Keeper> {
  core.checkOpen(spec);
  signal?.throwIfAborted();
  const entered = enter(core, spec);
  if (entered !== undefined || before.length === 0) {
    return entered ?? core.acquire(spec, deadline, signal, named);
  }
  const stop = new AbortController();
  const ignore = signal === undefined ? [] : [onAbort(signal, () => stop.abort(signal.reason))];
  const watch = () => before.forEach((keeper) => ignore.push(onAbort(keeper.watch(), () => stop.abort(LOST))));
  const timer = after(WATCH_AFTER_MS, watch);
  before.forEach((keeper) => keeper.begin());
  try {
    return await core.acquire(spec, deadline, stop.signal, named);
  } finally {
    clearTimeout(timer);
    ignore.forEach((end) => end());
  }
}

/** Releases all, the last one first, even if one fails. Rejects with NotHeld if one was lost, otherwise with the first error. */
async function releaseAll(keepers: readonly Keeper[]): Promise<void> {
  const results = await Promise.allSettled([...keepers].reverse().map((keeper) => keeper.release()));
  const errors = results.flatMap((result): unknown[] => (result.status === 'rejected' ? [result.reason] : []));
  if (errors.length > 0) {
    throw errors.find((error) => error instanceof NotHeld) ?? errors[0];
  }
}

function holdingOf(member: Member, keepers: ReadonlyMap<Part, Keeper>): Holding {
  if (!('members' in member)) {
    return keepers.get(member)!;
  }
  const own = partsOf(member).map((part) => keepers.get(part)!);
  return new Combination(member.kind, member.members.map((each) => holdingOf(each, keepers)), own);
}

/** The hold of several locks: it is lost if one of them is. */
class Combination implements Holding {
  readonly kind: SubjectKind;
  readonly keys: readonly string[];
  readonly owner: string;
  readonly token = null;
  readonly permits = 1;
  readonly members: readonly Holding[];
  readonly keepers: readonly Keeper[];
  readonly #loss = new Ending();
  /** The hold whose signal is used: it is in use, even if nothing else refers to it. */
  #watched: Hold | undefined;
  /** They end the watch of the keepers, which may be those of other holds, too. */
  readonly #ignore: (() => void)[] = [];

  /** `keepers`: in the order in which they were acquired. */
  constructor(kind: SubjectKind, members: readonly Holding[], keepers: readonly Keeper[]) {
    this.kind = kind;
    this.members = members;
    this.keepers = keepers;
    this.keys = members.flatMap(({ keys }) => keys);
    this.owner = keepers[0]!.owner;
  }

  get isLost(): boolean {
    return this.#lost() !== undefined;
  }

  get isKept(): boolean {
    return this.keepers.some(({ isKept }) => isKept);
  }

  begin(): void {
    this.keepers.forEach((keeper) => keeper.begin());
  }

  signalFor(hold: Hold): AbortSignal {
    if (this.#watched === undefined) {
      this.#watched = hold;
      for (const keeper of this.keepers) {
        for (const signal of [keeper.watch(), keeper.closed.signal]) {
          this.#ignore.push(onAbort(signal, () => this.#loss.end(signal.reason)));
        }
      }
    }
    return this.#loss.signal;
  }

  notHeld(): unknown {
    return this.#lost() ?? new NotHeld(this, 'it was released before');
  }

  /** Why it is lost. */
  #lost(): unknown {
    const lost = this.keepers.find(({ isLost, closed }) => isLost || closed.hasEnded);
    return lost?.isLost ? lost.notHeld() : lost?.closed.reason;
  }

  async renew(leaseMs?: number): Promise<void> {
    if (leaseMs !== undefined) {
      checkPositive('leaseMs', leaseMs);
      this.keepers.forEach((keeper) => keeper.checkHasLease());
    }
    await Promise.all(this.keepers.map((keeper) => keeper.renew(leaseMs)));
  }

  async guard(): Promise<never> {
    throw new TypeError(`guard: ${nameOfSubject(this)} has several holds, see hold.holds`);
  }

  release(): Promise<void> {
    const released = releaseAll(this.keepers);
    this.#ignore.forEach((end) => end());
    return released;
  }

  forgotten(): void {
    if (this.isKept) {
      warn(`${nameOfSubject(this)} was never released; it is released now`);
      this.release().catch(() => {});
    }
  }
}
