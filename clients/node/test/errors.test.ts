// Every error that is about a lock, or another object, begins with its name.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ServerError } from '../src/errors.js';
import { Closed, combine, Deadlock, ModuleMissing, NoReplicas, RedLock, Refused } from '../src/index.js';
import { Locks } from '../src/locks.js';
import { Fake, never, until } from './fake.js';

/** What rejects with an error about an object, and its name in texts. */
function uses(locks: Locks): [name: string, use: () => Promise<unknown>][] {
  const lock = locks.lock('k');
  return [
    ['lock "k"', () => lock.acquire()],
    ['lock "k"', () => lock.tryAcquire()],
    ['lock "k"', () => lock.info()],
    ['lock "k"', () => lock.force()],
    ['lock "k"', () => locks.withLock('k', () => {})],
    ['fair lock "k"', () => locks.fair('k').acquire({ waitMs: 1_000 })],
    ['read lock "k"', () => locks.read('k').acquire()],
    ['write lock "k"', () => locks.write('k').acquire()],
    ['multi-key lock "j", "k"', () => locks.multi(['j', 'k']).acquire()],
    ['semaphore "k"', () => locks.semaphore('k', 2).acquire()],
    ['read lock "r"', () => combine(locks.write('s'), locks.read('r')).acquire()], // the first of them
    ['latch "l"', () => locks.latch('l').wait()],
    ['latch "l"', () => locks.latch('l').countDown()],
    ['delayed queue "q"', () => locks.delayedQueue('q').push('v', 1)],
  ];
}

const REPLIES: [reply: string, type: new (...args: never[]) => Error, code: string, text?: string][] = [
  ['WRONGTYPE no lock', Refused, 'WRONGTYPE'],
  ['ERR invalid', Refused, 'ERR'],
  ['DEADLOCK a waits for b', Deadlock, 'DEADLOCK'],
  ['NOREPLICAS 0 of 1', NoReplicas, 'NOREPLICAS'],
  ["ERR unknown command 'LOCK.ACQUIRE', with args beginning with: 'k' ", ModuleMissing, 'ERR', 'unknown command: is lock.so loaded on server:6379?'],
];

for (const [reply, type, code, text = reply] of REPLIES) {
  test(`${type.name}, ${code}: the error names the lock`, async () => {
    const locks = new Locks(new Fake(() => Promise.reject(new ServerError(reply))));
    const wanted = (name: string) => (error: unknown) => {
      assert.ok(error instanceof type, String(error));
      const { message, code: own } = error as Refused;
      assert.deepEqual([error.constructor, error.name, own, message], [type, type.name, code, `${name}: ${text}`]);
      return true;
    };
    for (const [name, use] of uses(locks)) {
      await assert.rejects(use(), wanted(name));
    }
    await locks.close();
  });
}

test('an error of what is done under a lock names it; an unknown command of the user is no missing module', async () => {
  const refusal = { 'LOCK.GUARD': 'ERR unknown command', 'LOCK.RENEW': 'NOPERM', 'LOCK.RELEASE': 'NOPERM' } as Record<string, string>;
  const locks = new Locks(new Fake(([name = '']) => (name in refusal ? Promise.reject(new ServerError(`${refusal[name]} 'X'`)) : 1)));
  const hold = await locks.lock('k').acquire();
  const message = `lock "k": ERR unknown command 'X'`;
  await assert.rejects(hold.guard('X'), (error) => error instanceof Refused && !(error instanceof ModuleMissing) && error.message === message);
  await assert.rejects(hold.renew(), { name: 'Refused', message: `lock "k": NOPERM 'X'` });
  await assert.rejects(hold.release(), { name: 'Refused', message: `lock "k": NOPERM 'X'` });
  await assert.rejects(hold.release(), { name: 'NotHeld', keys: ['k'], message: 'lock "k" is not held: it was released before' });
  await locks.close();
});

test('a RedLock that is refused, or cannot be acquired, is named, once', async () => {
  let reply = 'WRONGTYPE no lock';
  const answer = ([name = '']: string[]) => (name.startsWith('LOCK.') ? Promise.reject(new ServerError(reply)) : ['role', 'master']);
  const all = [1, 2, 3].map((at) => new Locks(Object.assign(new Fake(answer), { name: `server${at}:6379` })));
  const lock = new RedLock(all).lock('k', { leaseMs: 400 });
  await assert.rejects(lock.acquire(), { name: 'Refused', code: 'WRONGTYPE', message: 'RedLock "k": WRONGTYPE no lock' });
  reply = "ERR unknown command 'LOCK.ACQUIRE'";
  const text = 'RedLock "k": unknown command: is lock.so loaded on server:6379?';
  await assert.rejects(lock.acquire(), (error) => error instanceof ModuleMissing && error.message === text);
  reply = 'LOADING the dataset';
  await assert.rejects(lock.acquire({ waitMs: 0 }), { name: 'Refused', code: 'LOADING', message: 'RedLock "k": LOADING the dataset' });
  const message = 'RedLock "k" was not acquired within 0.03 s: LOADING the dataset (server:6379)';
  await assert.rejects(lock.acquire({ waitMs: 30 }), { name: 'NotAcquired', message });
  await Promise.all(all.map((locks) => locks.close()));
  await assert.rejects(lock.acquire(), { name: 'Closed', message: 'RedLock "k": these Locks are closed' });
});

test('a wait that has timed out names the lock, and not again in its reason', async () => {
  const locks = new Locks(new Fake(() => Promise.reject(new ServerError('LOADING the dataset'))));
  const message = 'lock "k" was not acquired within 0.03 s: LOADING the dataset (server:6379)';
  const cause = new Refused('LOADING', 'lock "k": LOADING the dataset');
  await assert.rejects(locks.lock('k').acquire({ waitMs: 30 }), (error: Error) => {
    assert.deepEqual([error.name, error.message, String(error.cause)], ['NotAcquired', message, String(cause)]);
    return true;
  });
  await assert.rejects(locks.lock('k').tryAcquire(), { name: 'Refused', message: cause.message });
  await locks.close({ timeoutMs: 0 });
});

test('Closed names the lock: of a wait, of a request, and of everything after close()', async () => {
  const fake = new Fake(() => never());
  const locks = new Locks(fake);
  const all = uses(locks);
  const closed = (name: string, result: Promise<unknown>) =>
    assert.rejects(result, (error) => error instanceof Closed && error.code === 'CLOSED' && error.message === `${name}: these Locks are closed`);
  const pending = all.map(([name, use]) => closed(name, use()));
  await until(() => fake.of('LATCH.DOWN').length > 0 && fake.of('LOCK.RWREAD').length > 0);
  await Promise.all([...pending, locks.close({ timeoutMs: 0 })]);
  await Promise.all(all.map(([name, use]) => closed(name, use())));
});
