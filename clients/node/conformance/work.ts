import { setTimeout as sleep } from 'node:timers/promises';

import { NotAcquired, type Acquirable } from '../src/index.js';
import type { Flavour, To, User } from './flavours.js';
import { Cancelled, lockOf, type LockWords } from './words.js';

/** `workers` workers increment the counter `times` times each, under the lock; readers only read it. */
export async function count(
  user: User,
  lock: Acquirable,
  reads: boolean,
  counter: string,
  workers: number,
  times: number,
): Promise<number> {
  let done = 0;
  const worker = async () => {
    for (let round = 0; round < times; round++) {
      await lock.run(async () => {
        const value = Number((await user.command(counter, 'GET', counter)) ?? 0);
        if (!reads) {
          await user.command(counter, 'SET', counter, String(value + 1));
        }
        done++;
      });
    }
  };
  await Promise.all(Array.from({ length: workers }, worker));
  return done;
}

/** Random numbers from 0 to below 1, the same for the same seed. */
function randomOf(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state * 1_664_525 + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** Aborts after `ms`. The first timer of an event-loop iteration may be late; that is random, too. */
async function cancelled(lock: Acquirable, ms: number) {
  const abort = new AbortController();
  const timer = setTimeout(() => abort.abort(new Cancelled('cancelled')), ms);
  try {
    return await lock.acquire({ signal: abort.signal });
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Gives up again and again, while another client acquires and releases the lock. If it is acquired nevertheless, it is
 * released.
 */
export async function storm(lock: Acquirable, times: number, kind: 'cancel' | 'timeout', seed: number) {
  const random = randomOf(seed);
  const result = { acquired: 0, given_up: 0 };
  for (let round = 0; round < times; round++) {
    try {
      const hold = await (kind === 'cancel'
        ? cancelled(lock, random() * 3)
        : lock.acquire({ waitMs: 1 + Math.floor(random() * 3) }));
      result.acquired++;
      await hold.release();
    } catch (error) {
      if (!(error instanceof Cancelled || error instanceof NotAcquired)) {
        throw error;
      }
      result.given_up++;
    }
  }
  return result;
}

async function until(condition: () => Promise<boolean>): Promise<void> {
  while (!(await condition())) {
    await sleep(1);
  }
}

/**
 * How many clients are blocked. Called before both measurements, so that the state of the server's caches is the same.
 */
async function waiting(user: User, key: string): Promise<number> {
  return Number(/blocked_clients:(\d+)/.exec(String(await user.command(key, 'INFO', 'clients')))?.[1]);
}

/** One hand-off of the lock, from just before A's release to B's grant, in µs. */
async function handLock(a: User, b: User, words: LockWords): Promise<number> {
  const [key = ''] = words.keys;
  const held = await lockOf(a.locks, words).acquire();
  const waits = lockOf(b.locks, words).acquire();
  const granted = waits.then(() => process.hrtime.bigint());
  await until(async () => (await waiting(a, key)) === 1);
  const start = process.hrtime.bigint();
  const released = held.release();
  const us = Number((await granted) - start) / 1000;
  await released;
  await (await waits).release();
  return us;
}

/** The same for one hand-off of a list element. */
async function handElement(a: User, b: User, list: string): Promise<number> {
  const popped = b.command(list, 'BLPOP', list, '0').then(() => process.hrtime.bigint());
  await until(async () => (await waiting(a, list)) === 1);
  const start = process.hrtime.bigint();
  const pushed = a.command(list, 'RPUSH', list, 'x');
  const us = Number((await popped) - start) / 1000;
  await pushed;
  return us;
}

/** Both, alternating. */
export async function handoff(flavour: Flavour, to: To, words: LockWords, rounds: number) {
  const a = await flavour(to, {});
  const b = await flavour(to, {});
  const result = { lock_us: [] as number[], blpop_us: [] as number[] };
  for (let round = 0; round < rounds; round++) {
    result.lock_us.push(await handLock(a, b, words));
    result.blpop_us.push(await handElement(a, b, `${words.keys[0]}:list`));
  }
  for (const user of [a, b]) {
    await user.locks.close();
    await user.close();
  }
  return result;
}

