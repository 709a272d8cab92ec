import { Acquirable } from './acquirable.js';
import { acquire, checkOptions, checkPositive, firstKey, info, release, renew, specOf, type Spec } from './command.js';
import { REPLY_MS, type Line } from './connections.js';
import type { Core } from './core.js';
import { isNotHeld, isTransient, nameOfSubject, NotAcquired, NotHeld, ServerError, typed, warn, type Subject } from './errors.js';
import type { Hold, Holding } from './hold.js';
import { identify, reasonAgainst, type Identity } from './identity.js';
import { holdersIn } from './info.js';
import type { Keeper } from './keeper.js';
import type { Locks } from './locks.js';
import { newOwner } from './owner.js';
import { after, Deadline, Ending, now, Pauses, unless } from './time.js';

/** The pause before the next round, in ms: random, so that two clients that blocked each other do not collide again. */
const PAUSE_MS = [20, 200] as const;

/** How late a wait ends if servers do not respond, in ms. */
const LATE_MS = 80;

/** How late a wait ends that also requests the holders, in ms. */
const NAMED_MS = 95;

/** The error of a server that has not replied to an earlier request in time: it does not get the next one. */
const BUSY = new Error('the server has not replied yet');

/** The options of RedLock.lock. */
export interface RedLockOptions {
  /** How long a hold lasts without renewal, in ms; 10000 by default. */
  leaseMs?: number | undefined;
}

/**
 * Locks on a majority of independent servers, at least three: no replication between them, and no cluster. The token of
 * a hold is the largest that its servers have issued.
 */
export class RedLock {
  readonly #servers: readonly Server[];

  /** The Locks of the servers, one for each. */
  constructor(all: readonly Locks[]) {
    if (all.length < 3) {
      throw new RangeError(`a RedLock needs at least 3 servers, not ${all.length}`);
    }
    this.#servers = all.map(({ core }) => new Server(core, (server) => this.#admit(server)));
    for (const [at, { core }] of this.#servers.entries()) {
      if (core.connector.nodes !== null || core.connector.hasSentinels) {
        const what = core.connector.hasSentinels ? 'a master of Sentinels' : 'a cluster';
        throw new TypeError(`${core.connector.name} is ${what}, and no independent server`);
      }
      if (this.#servers.slice(0, at).some((other) => other.core === core)) {
        throw new TypeError(`${core.connector.name} is there twice`);
      }
    }
  }

  /** One holder at a time. There is no queue: a waiter tries again after a random pause. */
  lock(key: string, options: RedLockOptions = {}): Acquirable {
    checkOptions(options, { leaseMs: true });
    const { leaseMs = 10_000 } = options;
    const specs = this.#servers.map(({ core }) => specOf('lock', [key], { leaseMs, fenced: true }, 1, core.connector.prefix));
    return new Acquirable((deadline, signal, named) => {
      const seats = this.#servers.map((server, at) => new Seat(server, specs[at]!));
      const request = new Request({ kind: 'redlock', keys: specs[0]!.keys }, seats, leaseMs);
      const run = () => request.run(deadline, named);
      return seats.reduceRight((inner, { core }) => () => core.during(request, signal, inner), run)();
    });
  }

  /** Throws if the server is no independent one. */
  #admit(server: Server): void {
    for (const other of this.#servers) {
      const reason = reasonAgainst(server, other === server ? undefined : other);
      if (reason !== undefined) {
        throw new TypeError(reason);
      }
    }
  }
}

/** A server of a RedLock. */
class Server {
  readonly core: Core;
  /** What the server is; undefined as long as it was not connected to. */
  identity: Identity | undefined;
  /** It was not identified in time. Acquisitions do not wait for that again: it comes before each use anyway. */
  isSlow = false;
  readonly #admit: (server: Server) => void;
  #line: Line | undefined;
  #opening: Promise<Line> | undefined;

  constructor(core: Core, admit: (server: Server) => void) {
    this.core = core;
    this.#admit = admit;
  }

  get name(): string {
    return this.core.connector.name;
  }

  /** The connection for short commands, after the server has been identified on it. */
  ready(): Promise<Line> {
    if (this.#line?.closed === false) {
      return Promise.resolve(this.#line);
    }
    this.#opening ??= this.#open().finally(() => (this.#opening = undefined));
    return this.#opening;
  }

  async #open(): Promise<Line> {
    const line = await this.core.connections.control('');
    try {
      this.identity = await identify((args) => line.send(args, REPLY_MS));
      this.#admit(this);
    } catch (error) {
      this.identity = undefined;
      throw error;
    }
    this.#line = line;
    this.isSlow = false;
    return line;
  }
}

/** What one client requests from one server. */
class Seat {
  readonly core: Core;
  readonly spec: Spec;
  readonly server: Server;
  /** It has held the lock all the time, as far as the client knows. */
  counts = false;
  /** The connection of the last request; the release is sent behind that. */
  #line: Line | undefined;
  #isPending = false;
  /** Settles when the server has replied to all that was requested. */
  #turn: Promise<unknown> = Promise.resolve();
  /** What was requested before it changed is not sent any more. */
  #releases = 0;

  constructor(server: Server, spec: Spec) {
    this.server = server;
    this.core = server.core;
    this.spec = spec;
  }

  /** Rejects with BUSY if the server has not replied to the last request, or is connected to only after `until`. */
  async ask(args: string[], until: number): Promise<unknown> {
    if (this.#isPending) {
      throw BUSY;
    }
    return this.askInTurn(args, () => now() >= until);
  }

  /** Requests this when the server has replied to the last request; rejects with BUSY if it is too late for it then. */
  askInTurn(args: string[], isLate: () => boolean): Promise<unknown> {
    const releases = this.#releases;
    const reply = this.#turn.then(() => this.#ask(args, () => releases !== this.#releases || isLate()));
    this.#turn = reply.catch(() => {});
    return reply;
  }

  async #ask(args: string[], isLate: () => boolean): Promise<unknown> {
    const line = isLate() ? null : await this.server.ready();
    if (line === null || isLate()) {
      throw BUSY;
    }
    this.#line = line;
    this.#isPending = true;
    try {
      const reply = await line.send(args, REPLY_MS);
      this.core.connections.replied('', line);
      return reply;
    } catch (error) {
      this.core.connections.failed('', line, error);
      throw error;
    } finally {
      this.#isPending = false;
    }
  }

  /**
   * Releases what this owner may hold, behind the request. If its connection is lost, this is done on another one, until
   * the lease that ends then has expired. False if the owner did not hold it.
   */
  async release(owner: string, until: number): Promise<boolean> {
    this.#releases++;
    const line = this.#line;
    this.#line = undefined;
    if (line === undefined) {
      return true;
    }
    const args = release(this.spec, owner);
    try {
      await line.send(args, REPLY_MS);
      return true;
    } catch (error) {
      this.core.connections.failed('', line, error);
      if (error instanceof ServerError) {
        return !isNotHeld(error);
      }
    }
    await this.core.connections.insist('', args, Math.max(0, until - now()), new Pauses(REPLY_MS));
    return true;
  }
}

/** How many of the servers are a majority. */
function majorityOf(seats: readonly Seat[]): number {
  return Math.floor(seats.length / 2) + 1;
}

/** How long a server has to reply, in ms: dead servers must not use up the lease. */
function replyMsOf(leaseMs: number): number {
  return Math.min(Math.max(leaseMs / 20, 20), 1_000);
}

/** Until when a lease lasts that was requested at `sent`: clocks do not run at the same speed, and leases end at whole ms. */
function endOf(sent: number, leaseMs: number): number {
  return sent + leaseMs * 0.99 - 2;
}

/** Waits until all of these are settled, or it is `enough`, for `ms` at most. */
async function settled(promises: readonly Promise<unknown>[], ms: number, enough: () => boolean = () => false): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const early = promises.map((promise) => new Promise<void>((resolve) => {
    const check = () => void (enough() && resolve());
    promise.then(check, check);
  }));
  const timeout = new Promise<void>((resolve) => (timer = setTimeout(resolve, Math.max(0, ms))));
  await Promise.race([Promise.allSettled(promises), timeout, ...early]);
  clearTimeout(timer);
}

/** Releases on all servers. What is not released in time is released in the background. */
async function releaseAll(seats: readonly Seat[], owner: string, leaseMs: number, ms: number): Promise<boolean[]> {
  const held = seats.map(() => true);
  const releases = seats.map(async (seat, at) => {
    held[at] = await seat.release(owner, now() + leaseMs);
  });
  releases.forEach((work, at) => seats[at]!.core.background(work));
  await settled(releases, ms);
  return held;
}

/** What the servers replied in one round. */
interface Round {
  replies: number;
  /** The servers on which another owner holds it. */
  taken: Seat[];
  /** The error of a server that refuses. */
  refusals: unknown[];
  /** The last error about a connection. */
  error: unknown;
}

/** A wait for a RedLock. */
class Request {
  readonly subject: Subject;
  readonly #seats: readonly Seat[];
  readonly #leaseMs: number;
  readonly #stop = new Ending();

  constructor(subject: Subject, seats: readonly Seat[], leaseMs: number) {
    this.subject = subject;
    this.#seats = seats;
    this.#leaseMs = leaseMs;
  }

  abort(reason: unknown): void {
    this.#stop.end(reason);
  }

  /** The error of a wait that has timed out names the holders if it is `named`. */
  async run(deadline: Deadline, named: boolean): Promise<Holding> {
    const majority = majorityOf(this.#seats);
    const connectTimeoutMs = Math.max(...this.#seats.map(({ core }) => core.connections.connectTimeoutMs));
    let replied = now();
    await this.#identify(deadline);
    for (;;) {
      const round: Round = { replies: 0, taken: [], refusals: [], error: undefined };
      const holding = await this.#round(deadline, round);
      if (holding !== null) {
        return holding;
      }
      if (this.#stop.hasEnded) {
        throw this.#stop.reason;
      }
      if (this.#seats.length - round.refusals.length < majority) {
        throw typed(this.subject, round.refusals[0]);
      }
      const silent = round.replies < majority;
      const cause = silent ? (round.error ?? this.#seats[0]!.core.connections.timeoutError('reply from', connectTimeoutMs)) : undefined;
      replied = silent ? replied : now();
      if (now() - replied >= connectTimeoutMs || (silent && deadline.waitMs === 0)) {
        throw typed(this.subject, cause);
      }
      if (deadline.leftMs === 0) {
        const holders = named && !silent ? await this.#findHolders(deadline, round.taken) : [];
        throw new NotAcquired(this.subject, deadline.waitMs, holders, cause);
      }
      const [least, most] = PAUSE_MS;
      const pause = new Pauses(Infinity, least + Math.random() * (most - least));
      await pause.wait(this.#stop.signal, deadline.leftMs);
    }
  }

  /** The owners on these servers, as far as they reply in time. */
  async #findHolders(deadline: Deadline, seats: readonly Seat[]): Promise<string[]> {
    const holders = new Set<string>();
    const find = async ({ core, spec }: Seat) => {
      const reply = await core.connections.command('', info(firstKey(spec)));
      holdersIn(reply).forEach((holder) => holders.add(holder));
    };
    await settled(seats.map(find), deadline.until + NAMED_MS - now());
    return [...holders];
  }

  /** How long the next step may take. */
  #limit(deadline: Deadline): number {
    return Math.min(replyMsOf(this.#leaseMs), deadline.until + LATE_MS - now());
  }

  /** Throws if the servers are not independent, as far as they can be connected to in time. */
  async #identify(deadline: Deadline): Promise<void> {
    const servers = this.#seats.map(({ server }) => server);
    const unknown = new Set(servers.filter(({ identity, isSlow }) => identity === undefined && !isSlow));
    const errors: unknown[] = [];
    const ready = [...unknown].map(async (server) => {
      await server.ready().catch((error: unknown) => errors.push(error));
      unknown.delete(server);
    });
    if (ready.length > 0) {
      // Half of the time is left for the round of a try.
      await unless(this.#stop.signal, settled(ready, this.#limit(deadline) / 2, () => errors.some(isUnfit)));
    }
    unknown.forEach((server) => (server.isSlow = true));
    this.#checkFit(errors);
  }

  #checkFit(errors: readonly unknown[]): void {
    const unfit = errors.find(isUnfit);
    if (unfit !== undefined) {
      throw unfit;
    }
  }

  /** Requests the lock from all servers, with a new owner: a late release does not undo the next round. */
  async #round(deadline: Deadline, round: Round): Promise<Holding | null> {
    const [seats, leaseMs, owner, sent] = [this.#seats, this.#leaseMs, newOwner(), now()];
    const limit = this.#limit(deadline);
    const tokens: number[] = [];
    const errors: unknown[] = [];
    let isReleased = false;
    const requests = seats.map(async (seat) => {
      seat.counts = false;
      try {
        // A request that is sent later, by a renewal, counts later: the others may have lost the lock before it is granted.
        const reply = await seat.ask(acquire(seat.spec, owner, null), sent + limit);
        round.replies++;
        if (reply === null) {
          round.taken.push(seat);
        } else if (!isReleased) {
          seat.counts = true; // if it is late, from the next renewal on
          tokens.push(Number(reply));
        }
      } catch (error) {
        errors.push(error);
        const refused = error instanceof ServerError && !isTransient(error);
        refused ? round.refusals.push(error) && round.replies++ : (round.error = error === BUSY ? round.error : error);
      }
    });
    const isGranted = () => tokens.length >= majorityOf(seats);
    await unless(this.#stop.signal, settled(requests, limit, isGranted)).catch(() => {});
    if (isGranted() && now() < endOf(sent, leaseMs) && !this.#stop.hasEnded && !errors.some(isUnfit)) {
      return new RedLockKeeper(this.subject, seats, owner, Math.max(...tokens), leaseMs, sent);
    }
    isReleased = true;
    await releaseAll(seats, owner, leaseMs, this.#limit(deadline));
    this.#checkFit(errors);
    return null;
  }
}

function isUnfit(error: unknown): boolean {
  return error instanceof TypeError;
}

/** What keeps the hold of a RedLock. */
class RedLockKeeper implements Holding {
  readonly kind = 'redlock';
  readonly keys: readonly string[];
  readonly owner: string;
  readonly token: number;
  readonly permits = 1;
  readonly members: readonly Holding[] = [];
  readonly keepers: readonly Keeper[] = [];
  readonly #seats: readonly Seat[];
  readonly #loss = new Ending();
  #hasEnded = false;
  #leaseMs: number;
  /** When the lease expires by the local clock. */
  #until: number;
  #timer: NodeJS.Timeout | undefined;
  /** The hold whose signal is used: it is in use, even if nothing else refers to it. */
  #watched: Hold | undefined;
  /** The last round of renewals, and how many there were. */
  #round: Promise<unknown> = Promise.resolve();
  #rounds = 0;

  constructor({ keys }: Subject, seats: readonly Seat[], owner: string, token: number, leaseMs: number, sent: number) {
    this.keys = keys;
    this.owner = owner;
    this.token = token;
    this.#seats = seats;
    this.#leaseMs = leaseMs;
    this.#until = endOf(sent, leaseMs);
    seats.forEach(({ core }) => core.keep(this));
    this.#schedule(leaseMs / 3);
  }

  get isKept(): boolean {
    return !this.#hasEnded;
  }

  get isLost(): boolean {
    if (now() >= this.#until) {
      this.#lose('its lease expired on a majority of the servers');
    }
    return this.#loss.hasEnded;
  }

  begin(): void {}

  signalFor(hold: Hold): AbortSignal {
    this.#watched ??= this.#hasEnded ? undefined : hold;
    return this.#loss.signal;
  }

  notHeld(): unknown {
    return this.isLost ? this.#loss.reason : new NotHeld(this, 'it was released before');
  }

  /** The next renewal, or the end of the lease, whichever comes first. */
  #schedule(ms: number): void {
    clearTimeout(this.#timer);
    if (!this.#hasEnded) {
      this.#timer = after(Math.min(ms, this.#until - now()), () => this.isLost || void this.#renew());
    }
  }

  #lose(why: string): void {
    if (!this.#hasEnded) {
      this.#end();
      void releaseAll(this.#seats, this.owner, this.#leaseMs, 0);
      this.#loss.end(new NotHeld(this, why));
    }
  }

  #end(): void {
    this.#hasEnded = true;
    this.#watched = undefined;
    clearTimeout(this.#timer);
    this.#seats.forEach(({ core }) => core.forget(this));
  }

  async renew(leaseMs?: number): Promise<void> {
    if (leaseMs !== undefined) {
      checkPositive('leaseMs', leaseMs);
    }
    const error = await this.#renew(leaseMs);
    if (this.#hasEnded) {
      throw this.notHeld();
    }
    if (error !== undefined) {
      throw typed(this, error);
    }
  }

  /** One round after the other. Resolves to an error if no majority has renewed the lease. */
  #renew(leaseMs?: number): Promise<unknown> {
    const round = this.#round.then(() => (this.#hasEnded ? undefined : this.#renewAll(leaseMs ?? this.#leaseMs)));
    this.#round = round;
    return round;
  }

  async #renewAll(leaseMs: number): Promise<unknown> {
    const [seats, majority, sent] = [this.#seats, majorityOf(this.#seats), now()];
    if (leaseMs < this.#leaseMs) {
      // It counts from here on, because servers may grant it and their replies may get lost.
      this.#leaseMs = leaseMs;
      this.#until = Math.min(this.#until, endOf(sent, leaseMs));
    }
    clearTimeout(this.#timer);
    this.#schedule(Infinity);
    let last: unknown;
    const round = ++this.#rounds;
    const isLate = () => this.#hasEnded || round !== this.#rounds;
    const renewed = new Set<Seat>();
    const again = new Set<Seat>();
    const requests = seats.map(async (seat) => {
      try {
        await seat.askInTurn(renew(seat.spec, this.owner, leaseMs), isLate);
        (seat.counts ? renewed : again).add(seat);
      } catch (error) {
        last = error;
        if (isNotHeld(error) || isUnfit(error)) {
          // It has lost the lock. A new grant counts after a round that had a majority without it.
          seat.counts = false;
          const request = acquire({ ...seat.spec, leaseMs }, this.owner, null);
          const reply = isUnfit(error) ? null : await seat.askInTurn(request, isLate).catch(() => null);
          reply === null || again.add(seat);
        }
      }
    });
    await settled(requests, replyMsOf(leaseMs));
    if (this.#hasEnded) {
      return undefined;
    }
    if (seats.filter(({ counts }) => counts).length < majority) {
      this.#lose('a majority of the servers has not held it all the time');
    } else if (renewed.size >= majority && now() < endOf(sent, leaseMs)) {
      again.forEach((seat) => (seat.counts = true));
      this.#leaseMs = leaseMs;
      this.#until = endOf(sent, leaseMs);
      this.#schedule(sent + leaseMs / 3 - now());
      return undefined;
    } else {
      this.#schedule(this.#leaseMs / 10);
    }
    return last ?? seats[0]!.core.connections.timeoutError('reply from', replyMsOf(leaseMs));
  }

  async guard(): Promise<never> {
    throw new TypeError(`guard: ${nameOfSubject(this)} is on several servers`);
  }

  async release(): Promise<void> {
    if (this.#hasEnded || this.isLost) {
      throw this.notHeld();
    }
    this.#end();
    const held = await releaseAll(this.#seats, this.owner, this.#leaseMs, replyMsOf(this.#leaseMs));
    if (this.#seats.filter(({ counts }, at) => counts && held[at]).length < majorityOf(this.#seats)) {
      throw new NotHeld(this, 'a majority of the servers has lost it');
    }
  }

  /** One of its Locks is closed. */
  async close(): Promise<void> {
    if (!this.#hasEnded) {
      const released = this.release().catch(() => {});
      this.#loss.end(new NotHeld(this, 'its Locks were closed'));
      await released;
    }
  }

  forgotten(): void {
    if (!this.#hasEnded) {
      warn(`${nameOfSubject(this)} was never released; it is released now`);
      this.release().catch(() => {});
    }
  }
}
