// Locks over several slots of a cluster, and over several servers.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { Cluster } from 'ioredis';
import { createCluster } from 'redis';

import { combine, NotAcquired, NotHeld, type Hold, type Locks } from '../src/index.js';
import { locks as ioredisLocks } from '../src/ioredis.js';
import { locks as nodeRedisLocks } from '../src/node-redis.js';
import { Locks as CoreLocks } from '../src/locks.js';
import { TestCluster } from './cluster.js';
import { Fake, never, until } from './fake.js';
import { LIBRARIES } from './libraries.js';
import { TestServer } from './server.js';

let servers: TestServer[];
let cluster: TestCluster;
before(async () => {
  servers = await Promise.all([1, 2, 3].map(() => TestServer.start()));
  servers.sort((one, other) => Buffer.compare(Buffer.from(String(one.port)), Buffer.from(String(other.port))));
  cluster = await TestCluster.start();
});
after(() => Promise.all([...servers.map((server) => server.stop()), cluster.stop()]));

const CLUSTERS: Record<string, () => Locks> = {
  ioredis: () => ioredisLocks(new Cluster(cluster.servers.map(({ port }) => ({ host: '127.0.0.1', port })), { lazyConnect: true })),
  'node-redis': () =>
    nodeRedisLocks(createCluster({ rootNodes: cluster.servers.map(({ port }) => ({ socket: { host: '127.0.0.1', port } })) })),
};

/** Waits until the library's connections to all servers are open: a try has 100 ms, which may be too short for that. */
async function connected(all: Locks[]): Promise<void> {
  await Promise.all(all.map((locks) => locks.withLock('warm', () => {})));
}

for (const [name, locksOf] of Object.entries(CLUSTERS)) {
  test(`${name}: keys of several slots are acquired in the order of the slots, all or none`, async () => {
    const locks = locksOf();
    // The slots of these keys are 3300, 15495 and 7365, and the last one is in that of b.
    const lock = locks.multi(['a', 'b', 'c', '{b}2']);
    const hold = await lock.acquire();
    assert.deepEqual([hold.kind, hold.token, hold.keys], ['multi', null, ['b', '{b}2', 'c', 'a']]);
    assert.deepEqual(hold.holds.map(({ kind, keys }) => [kind, keys]), [['multi', ['b', '{b}2']], ['lock', ['c']], ['lock', ['a']]]);
    assert.equal(hold.owner, hold.holds[0]!.owner);
    assert.equal((await lock.info()).holders.length, 4);
    assert.equal(await hold.holds[1]!.guard('PING'), 'PONG');
    await assert.rejects(hold.guard('PING'), /^TypeError: guard: multi-key lock /);
    await hold.renew(20_000);
    await hold.release();
    await assert.rejects(hold.release(), NotHeld);
    assert.equal(await lock.locked(), false);

    const other = locksOf();
    const last = await other.lock('a').acquire();
    await assert.rejects(lock.acquire({ waitMs: 1_000 }), { name: 'NotAcquired', waitMs: 1_000, holders: [last.owner], keys: ['a'] });
    assert.equal(await locks.multi(['b', 'c']).locked(), false);
    await last.release();

    await locks.multi({ read: ['a', 'b'], write: ['c'] }, { reentrant: true }).run(async ({ holds }) => {
      assert.deepEqual(holds.map(({ kind }) => kind), ['read', 'write', 'read']);
      const inner = await locks.multi({ read: ['a', 'b'], write: ['c'] }, { reentrant: true }).acquire();
      assert.deepEqual(inner.holds.map(({ owner }) => owner), holds.map(({ owner }) => owner));
      await inner.release();
      assert.equal(await locks.read('a').locked(), true);
    });
    assert.equal(await lock.locked(), false);
    for (const { ask } of cluster.servers) {
      await ask.flushall();
    }
    await Promise.all([locks.close(), other.close()]);
  });
}

for (const [name, library] of Object.entries(LIBRARIES)) {
  test(`${name}: locks of several servers and kinds are one lock`, async () => {
    const all = servers.map(({ port }) => library(port));
    const [one, two, three] = all as [Locks, Locks, Locks];
    const lock = combine(three.semaphore('k', 2), one.write('k', { fenced: true }), two.fair('k'));
    await connected(all);
    const hold = (await lock.tryAcquire())!;
    assert.deepEqual(hold.holds.map(({ kind }) => kind), ['semaphore', 'write', 'fair']);
    assert.deepEqual([hold.kind, hold.owner, hold.token], ['combined', hold.holds[1]!.owner, null]);
    assert.ok(Number(hold.holds[1]!.token) > 0);
    assert.deepEqual([hold.isLost, await lock.tryAcquire()], [false, null]);
    assert.equal(await three.semaphore('k', 2).locked(), true);

    const aborts: unknown[] = [];
    hold.signal.addEventListener('abort', () => aborts.push(hold.signal.reason));
    await servers[1]!.until('k', (info) => (info?.watchers ?? 0) > 0);
    await servers[1]!.ask.call('LOCK.FORCE', 'k');
    await until(() => aborts.length > 0);
    assert.equal(hold.isLost, true);
    await assert.rejects(hold.renew(), NotHeld);
    await assert.rejects(hold.release(), { name: 'NotHeld', message: /^fair lock "k" is not held/ });
    assert.equal(aborts.length, 1);
    assert.equal(await lock.locked(), false);
    await Promise.all(all.map((locks) => locks.close()));
  });

  test(`${name}: what is lost while a later lock is waited for is acquired again`, async () => {
    const [one, two] = servers.slice(0, 2).map(({ port }) => library(port)) as [Locks, Locks];
    const busy = await two.lock('k').acquire();
    const waits = combine(two.lock('k'), one.lock('k')).acquire();
    await servers[1]!.waiting('k');
    await servers[0]!.ask.call('LOCK.FORCE', 'k');
    await servers[0]!.until('k', (info) => info !== null);
    await servers[1]!.waiting('k');
    await busy.release();
    const hold = await waits;
    await hold.renew();
    await hold.release();
    await Promise.all([one.close(), two.close()]);
  });

  test(`${name}: a server that is silent ends no wait late, and what was acquired before is released`, async () => {
    const [one, two] = servers.slice(0, 2).map(({ port }) => library(port)) as [Locks, Locks];
    await connected([one, two]);
    const lock = combine(one.lock('k'), two.lock('k'));
    servers[1]!.signal('SIGSTOP');
    const start = performance.now();
    await assert.rejects(lock.acquire({ waitMs: 200 }), NotAcquired);
    await assert.rejects(lock.tryAcquire(), { code: 'ETIMEDOUT' });
    assert.ok(performance.now() - start < 1_500);
    await servers[0]!.until('k', (info) => info === null);
    servers[1]!.signal('SIGCONT');
    await servers[1]!.until('k', (info) => info === null);
    await Promise.all([one.close(), two.close()]);
  });
}

test('a hold is lost when one of its Locks is closed, and can be forgotten', async () => {
  const fakes = [new Fake(() => 1), new Fake(() => 1)];
  fakes.forEach((fake, at) => (fake.name = `server:${at}`));
  const [one, two] = fakes.map((fake) => new CoreLocks(fake)) as [CoreLocks, CoreLocks];
  const hold = await combine(one.lock('k'), two.lock('k', { watch: false })).acquire();
  const { signal } = hold;
  await two.close();
  assert.equal(signal.aborted, true);
  assert.deepEqual([hold.isLost, fakes[0]!.of('LOCK.RELEASE').length], [true, 0]);
  await assert.rejects(hold.release(), NotHeld);
  assert.deepEqual(fakes.map((fake) => fake.of('LOCK.RELEASE').length), [1, 1]);

  let text = '';
  process.once('warning', ({ message }) => (text = message));
  await combine(one.lock('a'), one.lock('b')).acquire();
  while (text === '') {
    await new Promise((resolve) => setTimeout(resolve, 5));
    global.gc!();
  }
  assert.equal(text, 'combined lock "a", "b" was never released; it is released now');
  await until(() => fakes[0]!.of('LOCK.RELEASE').length === 3);
  await one.close();
});

test('a combined hold is not forgotten while the signal of a member is used', async () => {
  const fake = new Fake((args) => (args[0] === 'LOCK.WATCH' ? never() : 1));
  const locks = new CoreLocks(fake);
  let text = '';
  process.once('warning', ({ message }) => (text = message));
  const signal = await combine(locks.lock('a'), locks.lock('b')).acquire().then(({ holds }) => holds[0]!.signal);
  await combine(locks.lock('c'), locks.lock('d')).acquire();
  while (text === '') {
    await new Promise((resolve) => setTimeout(resolve, 5));
    global.gc!();
  }
  assert.equal(text, 'combined lock "c", "d" was never released; it is released now');
  assert.deepEqual([signal.aborted, fake.of('LOCK.RELEASE').some(([, key]) => key === 'a')], [false, false]);
  await locks.close();
});

test('after its release an inner hold is not notified of the loss of the outer one', async () => {
  const fake = new Fake(() => 1);
  const locks = new CoreLocks(fake);
  const lock = combine(locks.lock('a', { reentrant: true, watch: false }), locks.lock('b', { reentrant: true, watch: false }));
  let signals: AbortSignal[] = [];
  const work = lock.run(async (outer) => {
    const inner = await lock.acquire();
    signals = [inner.signal, outer.signal];
    await inner.release();
    await locks.close();
  });
  await assert.rejects(work, NotHeld);
  assert.deepEqual(signals.map(({ aborted }) => aborted), [false, true]);
});

test('all locks are released if one of them fails', async () => {
  const fake = new Fake((args) => {
    if (args[0] === 'LOCK.RELEASE' && args[1] === 'b') {
      throw new Error('no memory');
    }
    return 1;
  });
  const locks = new CoreLocks(fake);
  const hold: Hold = await combine(locks.lock('c'), locks.lock('a'), locks.lock('b', { leaseMs: 50, renew: false, watch: false })).acquire();
  await assert.rejects(hold.release());
  assert.deepEqual(fake.of('LOCK.ACQUIRE').map(([, key]) => key), ['a', 'b', 'c']);
  assert.deepEqual(fake.of('LOCK.RELEASE').map(([, key]) => key).slice(0, 3), ['c', 'b', 'a']);
  await locks.close();
});

test('what cannot be combined, and an aborted wait', async () => {
  const fake = new Fake((args) => (args[1] === 'b' && args[0] === 'LOCK.ACQUIRE' ? never() : 1));
  const locks = new CoreLocks(fake);
  assert.throws(() => combine(), { message: 'locks must not be empty' });
  assert.throws(() => combine(locks.lock('k'), locks.multi(['j', 'k'])), { message: 'locks: k is there twice' });
  assert.throws(() => combine('k' as never), { message: 'locks: k is not a lock of Locks' });
  assert.equal(fake.sent.length, 0);
  const abort = new AbortController();
  const waits = combine(combine(locks.lock('b')), locks.lock('a')).acquire({ signal: abort.signal });
  await until(() => fake.of('LOCK.ACQUIRE').length === 2);
  abort.abort(new Error('enough'));
  await assert.rejects(waits, { message: 'enough' });
  assert.deepEqual(fake.of('LOCK.RELEASE').map(([, key]) => key), ['a']);
  assert.equal(fake.of('LOCK.CANCEL').length > 0, true);
  await locks.close();
});
