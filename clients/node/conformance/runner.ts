// The conformance suite's runner: lines of JSON in, lines of JSON out. See clients/conformance/README.md.
import { createInterface } from 'node:readline';

import type { Acquirable, DelayedQueue, Hold, Job, Latch } from '../src/index.js';
import { textOf } from '../src/errors.js';
import { unless } from '../src/time.js';
import { FLAVOURS, type To, type User } from './flavours.js';
import { acquirableOf, BodyError, Cancelled, codeOf, lockOf, waitOf, type LockWords } from './words.js';
import { count, handoff, storm } from './work.js';

/** A request; its fields depend on `do`. */
interface Request {
  id: number;
  do: string;
  as: string;
  on?: string;
  of: number;
  to: To;
  lock: LockWords;
  wait_ms?: number | null;
  max_block_ms?: number | null;
  connect_timeout_ms?: number | null;
  wrong?: boolean;
  stop?: boolean;
  timeout_ms?: number | null;
  tasks: number;
  hold_ms: number;
  own?: boolean;
  close?: boolean;
  raise?: boolean;
  until?: boolean;
  counter: string;
  workers: number;
  times: number;
  kind: 'cancel' | 'timeout';
  seed: number;
  rounds: number;
  lease_ms?: number | null;
  command: string[];
  key: string;
  count: number;
  by?: number | null;
  queue: string;
  value: string;
  delay_ms: number;
  item: string | null;
  max_tries?: number | null;
  backoff_ms?: number | null;
  fail?: string[] | null;
  hold?: string[] | null;
  jobs?: number | null;
}

const flavour = FLAVOURS[process.argv[2] ?? ''];
const users = new Map<string, User>();
const holds = new Map<string, Hold>();
const pending = new Map<string, AbortController>();
const inside = new Map<number, () => void>();

function write(line: object): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

function named<Value>(map: Map<string, Value>, name: string): Value {
  const value = map.get(name);
  if (value === undefined) {
    throw new TypeError(`there is no ${name}`);
  }
  return value;
}

function userOf(request: Request): User {
  return named(users, request.on ?? 'main');
}

function latchOf(request: Request): Latch {
  return userOf(request).locks.latch(request.key);
}

function queueOf(request: Request): DelayedQueue {
  return userOf(request).locks.delayedQueue(request.queue);
}

/** The lock of a request. */
function lockIn(request: Request): Acquirable {
  return acquirableOf(userOf(request).locks, request.lock, (name) => named(users, name).locks);
}

async function connect(request: Request): Promise<object> {
  const settings = {
    maxBlockMs: request.max_block_ms ?? undefined,
    connectTimeoutMs: request.connect_timeout_ms ?? undefined,
    wrong: request.wrong ?? false,
  };
  const user = await flavour!(request.to, settings);
  const before = users.get(request.as ?? 'main');
  users.set(request.as ?? 'main', user);
  await before?.close();
  return {};
}

/** Runs what `cancel` can end. */
async function cancellable<Result>(as: string, run: (signal: AbortSignal) => Promise<Result>): Promise<Result> {
  const abort = new AbortController();
  pending.set(as, abort);
  try {
    return await run(abort.signal);
  } finally {
    pending.delete(as);
  }
}

async function acquire(request: Request): Promise<object> {
  const lock = lockIn(request);
  const hold = await cancellable(request.as, (signal) => lock.acquire({ ...waitOf(request.wait_ms), signal }));
  holds.set(request.as, hold);
  if (request.lock.watch) {
    hold.signal.addEventListener('abort', () => write({ event: 'lost', as: request.as }));
  }
  return { owner: hold.owner, token: hold.token, owners: hold.holds.map(({ owner }) => owner) };
}

async function release(request: Request): Promise<object> {
  await named(holds, request.as).release();
  return {};
}

/** Lets the engine collect what is not used any more, some of it only after promises and timers have run. */
async function collect(): Promise<void> {
  for (let round = 0; round < 3; round++) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    global.gc?.();
  }
}

async function abandon({ as }: Request): Promise<object> {
  holds.delete(as);
  await collect();
  return {};
}

async function crowd(request: Request): Promise<object> {
  const { locks } = userOf(request);
  let done = 0;
  const task = async (number: number) => {
    const keys = request.lock.keys.map((key) => (request.own === false ? key : `${key}:${number}`));
    const hold = await lockOf(locks, { ...request.lock, keys }).acquire();
    await new Promise((resolve) => setTimeout(resolve, request.hold_ms));
    await hold.release();
    done++;
  };
  const ends = await Promise.allSettled(Array.from({ length: request.tasks }, (_, number) => task(number)));
  const failed = ends.find((end) => end.status === 'rejected');
  if (failed !== undefined) {
    throw failed.reason;
  }
  return { done };
}

/** The locks of one client are one object until they are closed, so each round has a client of its own. */
async function shortLived(request: Request): Promise<object> {
  const user = userOf(request);
  for (let round = 0; round < request.times; round++) {
    const locks = user.fresh();
    await lockOf(locks, request.lock).run(() => {});
    if (request.close) {
      await locks.close();
    }
  }
  await collect();
  return {};
}

async function within(request: Request): Promise<object> {
  const lock = lockIn(request);
  await lock.run(async ({ signal }) => {
    const stopped = request.stop && new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
    const left = new Promise<void>((resolve) => inside.set(request.id, resolve));
    write({ event: 'inside', id: request.id });
    await (request.stop ? stopped : request.until ? left : null);
    if (request.raise) {
      throw new BodyError('the body failed');
    }
  }, waitOf(request.wait_ms));
  return {};
}

/** Acquires the lock `times` times, each inside the one before. */
async function reenter(request: Request): Promise<object> {
  const lock = lockIn(request);
  const owners: string[] = [];
  const left = new Promise<void>((resolve) => inside.set(request.id, resolve));
  const enter = (): Promise<void> =>
    lock.run(async ({ owner }) => {
      if (owners.push(owner) < request.times) {
        return enter();
      }
      write({ event: 'inside', id: request.id });
      return left;
    }, waitOf(request.wait_ms));
  await enter();
  return { owners };
}

async function info(request: Request): Promise<object> {
  const { holders, waiting, waiters } = await lockOf(userOf(request).locks, request.lock).info();
  return {
    holders: holders.map(({ key, owner, mode, holds }) => ({ key, owner, mode, holds })),
    waiting,
    waiters: waiters.map(({ key, owner, mode, fair }) => ({ key, owner, mode, fair })),
  };
}

async function guard({ as, command: [name = '', ...args] }: Request): Promise<object> {
  const reply = await named(holds, as).guard(name, ...args);
  return { reply: typeof reply === 'number' || reply === null ? reply : String(reply) };
}

/** Ends by itself after `jobs` jobs: the last one ends before its consumer does. */
async function consume(request: Request): Promise<object> {
  const { id, as, timeout_ms, max_tries, backoff_ms, fail, hold, jobs } = request;
  const enough = new AbortController();
  let done = 0;
  const left = new Promise<void>((resolve) => inside.set(id, resolve));
  const handler = async ({ value, tries, signal }: Job) => {
    write({ event: 'job', id, value, tries });
    if (hold?.includes(value)) {
      await unless(signal, left);
    }
    if (++done === jobs) {
      enough.abort(enough);
    }
    if (fail?.includes(value)) {
      throw new BodyError('the handler failed');
    }
  };
  const options = { timeoutMs: timeout_ms ?? undefined, maxTries: max_tries ?? undefined, backoffMs: backoff_ms ?? undefined };
  const run = (signal: AbortSignal) =>
    queueOf(request).consume(handler, { ...options, signal: AbortSignal.any([signal, enough.signal]) });
  try {
    return await cancellable(as, run);
  } catch (error) {
    if (error === enough) {
      return {};
    }
    throw error;
  }
}

async function quit(): Promise<object> {
  await Promise.all([...users.values()].map((user) => user.locks.close()));
  await Promise.all([...users.values()].map((user) => user.close()));
  input.close();
  // Nothing may keep this process alive now, so process.exit() is not called, on purpose.
  process.stdin.destroy();
  return {};
}

const ACTIONS: Record<string, (request: Request) => Promise<object>> = {
  connect,
  acquire,
  release,
  within,
  quit,
  cancel: async ({ as }) => (pending.get(as)?.abort(new Cancelled('cancelled')), {}),
  lost: async ({ as }) => ({ lost: named(holds, as).isLost }),
  locked: async (r) => ({ locked: await lockOf(userOf(r).locks, r.lock).locked() }),
  info,
  force: async (r) => ({ forced: await lockOf(userOf(r).locks, r.lock).force() }),
  renew: async ({ as, lease_ms }) => (await named(holds, as).renew(lease_ms ?? undefined), {}),
  guard,
  reenter,
  latch_set: async (r) => (await latchOf(r).set(r.count, { leaseMs: r.lease_ms ?? undefined }), {}),
  latch_down: async (r) => ({ left: await latchOf(r).countDown(r.by ?? undefined) }),
  latch_count: async (r) => ({ count: await latchOf(r).count() }),
  latch_wait: async (r) => ({
    open: await cancellable(r.as, (signal) => latchOf(r).wait({ ...waitOf(r.wait_ms), signal })),
  }),
  delay_push: async (r) => ({ item: await queueOf(r).push(r.value, r.delay_ms, { id: r.item ?? undefined }) }),
  delay_cancel: async (r) => ({ cancelled: await queueOf(r).cancel(r.item ?? '') }),
  delay_list: async (r) => ({ items: (await queueOf(r).list()).map(({ id, value }) => ({ item: id, value })) }),
  consume,
  abandon,
  crowd,
  short_lived: shortLived,
  close: async (r) => (await userOf(r).locks.close(r.timeout_ms == null ? {} : { timeoutMs: r.timeout_ms }), {}),
  leave: async ({ of }) => (inside.get(of)?.(), {}),
  count: async (r) => ({ done: await count(userOf(r), lockIn(r), r.lock.kind === 'read', r.counter, r.workers, r.times) }),
  storm: (r) => storm(lockIn(r), r.times, r.kind, r.seed),
  ping: async (r) => ({ pong: String(await userOf(r).command('', 'PING')) === 'PONG' }),
  handoff: (r) => handoff(flavour!, r.to, r.lock, r.rounds),
};

async function serve(line: string): Promise<void> {
  const request = JSON.parse(line) as Request;
  try {
    const action = ACTIONS[request.do];
    if (action === undefined) {
      throw new TypeError(`no such request: ${request.do}`);
    }
    write({ id: request.id, ok: true, ...(await action(request)) });
  } catch (error) {
    write({ id: request.id, error: codeOf(error), text: textOf(error) });
  }
}

const input = createInterface({ input: process.stdin });
let quitting = false;
input.on('line', (line) => {
  quitting ||= (JSON.parse(line) as Request).do === 'quit';
  void serve(line);
});
input.on('close', () => {
  if (!quitting) {
    quitting = true;
    void quit();
  }
});
