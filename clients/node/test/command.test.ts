import assert from 'node:assert/strict';
import { test } from 'node:test';

import { acquire, cancel, multiKeysOf, release, releaseOne, renew, specOf, watch, type Kind, type Mode, type MultiKeys, type SemaphoreOptions } from '../src/command.js';
import { RedLock } from '../src/index.js';
import { Locks } from '../src/locks.js';
import { perClient } from '../src/per-client.js';
import { Fake } from './fake.js';

interface Row {
  kind: Kind;
  keys?: string[];
  modes?: Mode[];
  options?: SemaphoreOptions;
  limit?: number;
  acquires: string;
  releases: string;
  cancels: string;
}

const ROWS: Row[] = [
  { kind: 'lock', acquires: 'LOCK.ACQUIRE k me PX 30000 BLOCK 5 ONCE', releases: 'LOCK.RELEASE k me', cancels: 'LOCK.CANCEL k me RELEASE' },
  { kind: 'fair', acquires: 'LOCK.FAIR k me PX 30000 BLOCK 5 ONCE', releases: 'LOCK.RELEASE k me', cancels: 'LOCK.CANCEL k me RELEASE' },
  {
    kind: 'read',
    options: { leaseMs: 70 },
    acquires: 'LOCK.RWREAD k me PX 70 BLOCK 5 ONCE',
    releases: 'LOCK.RELEASE k me READ',
    cancels: 'LOCK.CANCEL k me RELEASE READ',
  },
  {
    kind: 'write',
    options: { fenced: true },
    acquires: 'LOCK.RWWRITE k me PX 30000 BLOCK 5 FENCED ONCE',
    releases: 'LOCK.RELEASE k me WRITE',
    cancels: 'LOCK.CANCEL k me RELEASE WRITE',
  },
  {
    kind: 'multi',
    keys: ['k', 'l'],
    options: { session: true },
    acquires: 'LOCK.MACQUIRE 2 k l me SESSION BLOCK 5 ONCE',
    releases: 'LOCK.MRELEASE 2 k l me',
    cancels: 'LOCK.CANCEL k me',
  },
  {
    kind: 'multi',
    keys: ['k', 'l'],
    modes: ['READ', 'WRITE'],
    acquires: 'LOCK.MACQUIRE 2 k l me MODES READ WRITE PX 30000 BLOCK 5 ONCE',
    releases: 'LOCK.MRELEASE 2 k l me MODES READ WRITE',
    cancels: 'LOCK.CANCEL k me',
  },
  {
    kind: 'semaphore',
    options: { permits: 2, replicas: { count: 1, ms: 9 } },
    limit: 3,
    acquires: 'LOCK.SEMAPHORE k me 3 PERMITS 2 PX 30000 BLOCK 5 ONCE REPLICAS 1 9',
    releases: 'LOCK.RELEASE k me PERMITS 2',
    cancels: 'LOCK.CANCEL k me RELEASE PERMITS 2',
  },
];

for (const { kind, keys = ['k'], modes, options = {}, limit, acquires, releases, cancels } of ROWS) {
  test(`the commands of a ${kind} lock${modes ? ' with modes' : ''}`, () => {
    const spec = specOf(kind, keys, options, limit, '', modes);
    assert.equal(acquire(spec, 'me', 5).join(' '), acquires);
    assert.equal(release(spec, 'me').join(' '), releases);
    assert.equal(cancel(spec, 'me').join(' '), cancels);
  });
}

test('a try has no BLOCK, a wait without a limit has BLOCK 0', () => {
  const spec = specOf('lock', ['k'], {});
  assert.ok(!acquire(spec, 'me', null).includes('BLOCK'));
  assert.match(acquire(spec, 'me', 0).join(' '), /BLOCK 0 /);
});

test('a renewal has the lease and the replicas', () => {
  const replicas = { count: 2, ms: 30 };
  assert.equal(renew(specOf('lock', ['k'], { leaseMs: 9, replicas }), 'me').join(' '), 'LOCK.RENEW k me PX 9 REPLICAS 2 30');
  assert.equal(renew(specOf('lock', ['k'], { session: true }), 'me').join(' '), 'LOCK.RENEW k me SESSION');
  assert.equal(renew(specOf('multi', ['k', 'l'], {}), 'me').join(' '), 'LOCK.MRENEW 2 k l me PX 30000');
  assert.equal(watch('k', 'me', 7).join(' '), 'LOCK.WATCH k me BLOCK 7');
});

test('the keys to read and to write become a list, in which a key of both is written', () => {
  assert.deepEqual(multiKeysOf(['b', 'a']), { keys: ['b', 'a'] });
  assert.deepEqual(multiKeysOf({ read: ['/', '/a'], write: ['/a'] }), { keys: ['/', '/a'], modes: ['READ', 'WRITE'] });
  assert.deepEqual(multiKeysOf({}), { keys: [], modes: [] });
  const { keys, modes } = multiKeysOf({ read: ['/'], write: ['/a'] });
  assert.equal(releaseOne(specOf('multi', keys, {}, 1, '', modes), 1, 'me').join(' '), 'LOCK.RELEASE /a me WRITE');
  assert.equal(releaseOne(specOf('multi', ['k'], {}), 0, 'me').join(' '), 'LOCK.RELEASE k me');
});

test('settings that are always invalid are refused at once', () => {
  const refuses = (message: string, ...args: Parameters<typeof specOf>) => assert.throws(() => specOf(...args), { message });
  refuses('leaseMs must be greater than 0, not 0', 'lock', ['k'], { leaseMs: 0 });
  refuses('leaseMs must be greater than 0, not NaN', 'lock', ['k'], { leaseMs: Number.NaN });
  refuses('leaseMs must be at least 1 ms, not 0.5', 'lock', ['k'], { leaseMs: 0.5 });
  refuses('leaseMs must be a whole number, not 1.5', 'lock', ['k'], { leaseMs: 1.5 });
  refuses('limit must be at least 1, not 0', 'semaphore', ['k'], {}, 0);
  refuses('permits must be from 1 to the limit of 3, not 4', 'semaphore', ['k'], { permits: 4 }, 3);
  refuses('permits: only a semaphore has permits', 'lock', ['k'], { permits: 1 });
  const lockOptions = 'leaseMs, session, fenced, replicas, renew, watch, reentrant';
  refuses(`wait: there is no such option here, only ${lockOptions}`, 'lock', ['k'], { wait: 1 } as never);
  refuses(`wait: there is no such option here, only ${lockOptions}, permits`, 'semaphore', ['k'], { wait: 1 } as never);
  refuses('options must be an object, not null', 'lock', ['k'], null as never);
  refuses('fenced: a read lock has no fencing token', 'read', ['k'], { fenced: true });
  refuses('replicas must be at least 1, not 0', 'lock', ['k'], { replicas: { count: 0, ms: 1 } });
  refuses('replicas: the time must be greater than 0, not 0', 'lock', ['k'], { replicas: { count: 1, ms: 0 } });
  refuses('keys: a fair lock has one key, not 2', 'fair', ['a', 'b'], {});
  refuses('kind: there is no mutex', 'mutex' as Kind, ['a'], {});
  refuses('keys must not be empty', 'multi', [], {});
  refuses('a key must be a string, not undefined', 'lock', [undefined as unknown as string], {});
  const refusesKeys = (message: string, keys: unknown) => assert.throws(() => multiKeysOf(keys as MultiKeys), { name: 'TypeError', message });
  refusesKeys('keys must be a list or { read, write }, not 5', 5);
  refusesKeys('keys must be a list or { read, write }, not k', 'k');
  refusesKeys('write must be a list of keys, not report', { write: 'report' });
});

test('an option that does not exist is refused, and named first, before anything is sent', async () => {
  const fake = new Fake(() => 1);
  const locks = new Locks(fake);
  const lock = locks.lock('k');
  const typo = { wait: 1_000 } as never;
  const refusal = { name: 'TypeError', message: /^wait: there is no such option here, only \w+/ };
  const redlock = new RedLock([1, 2, 3].map(() => new Locks(fake)));
  const settings = perClient(() => fake);
  const throwing = [
    () => locks.lock('k', typo),
    () => locks.semaphore('k', 2, typo),
    () => locks.multi(typo),
    () => locks.withLock('k', () => {}, typo),
    () => redlock.lock('k', typo),
    () => settings({}, typo),
  ];
  throwing.forEach((call) => assert.throws(call, refusal));
  const rejecting = [
    lock.acquire(typo),
    lock.tryAcquire(typo),
    lock.run(() => {}, typo),
    locks.latch('l').set(1, typo),
    locks.latch('l').wait(typo),
    locks.delayedQueue('q').push('v', 1, typo),
    locks.delayedQueue('q').consume(() => {}, typo),
    locks.close(typo),
  ];
  await Promise.all(rejecting.map((promise) => assert.rejects(promise, refusal)));
  await assert.rejects(lock.acquire(1_000 as never), { name: 'TypeError', message: 'options must be an object, not 1000' });
  assert.deepEqual([fake.sent.length, locks.isClosed], [0, false]);
  await locks.close();
});
