// What can be done with locks besides locking: locked(), info(), force(), renew(), guard(), and re-entry.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, before, test } from 'node:test';

import { ModuleMissing, NotAcquired, NotHeld, Refused, type Hold } from '../src/index.js';
import { Locks } from '../src/locks.js';
import { Fake, never, until } from './fake.js';
import { LIBRARIES } from './libraries.js';
import { TestServer } from './server.js';

let server: TestServer;
before(async () => void (server = await TestServer.start()));
after(() => server.stop());

for (const [name, library] of Object.entries(LIBRARIES)) {
  test(`${name}: who holds a lock, and who waits`, async () => {
    const locks = library(server.port, { keyPrefix: `${name}:` });
    const lock = locks.multi(['a', 'b'], { session: true });
    assert.deepEqual([await lock.locked(), await lock.info()], [false, { holders: [], waiting: 0, waiters: [] }]);
    const hold = await lock.acquire();
    const waiter = locks.fair('b').acquire();
    await server.waiting(`${name}:b`);
    const { holders, waiting, waiters } = await lock.info();
    assert.deepEqual(
      holders.map(({ key, owner, mode, holds, session }) => [key, owner, mode, holds, session]),
      hold.keys.map((key) => [key, hold.owner, 'exclusive', 1, true]),
    );
    assert.ok(holders.every(({ leftMs }) => leftMs !== null && leftMs > 0 && leftMs <= 30_000));
    assert.equal(waiting, 1);
    assert.deepEqual(
      waiters.map(({ key, mode, fair, leftMs }) => [key, mode, fair, leftMs]),
      [[`${name}:b`, 'exclusive', true, null]],
    );
    assert.ok(waiters[0]!.waitedMs >= 0 && waiters[0]!.owner !== hold.owner);
    await hold.release();
    await (await waiter).release();

    const exports = locks.semaphore('s', 2);
    const permit = await exports.acquire();
    assert.equal(await exports.locked(), true);
    assert.equal(await exports.force(), true);
    assert.equal(await exports.force(), false);
    await assert.rejects(permit.release(), NotHeld);
    await locks.close();
    await assert.rejects(exports.locked(), { code: 'CLOSED' });
  });

  test(`${name}: a command is guarded by a lock`, async () => {
    const locks = library(server.port);
    const hold = await locks.multi(['{g}a', '{g}b']).acquire();
    assert.equal(await hold.guard('SET', '{g}v', 1), 'OK');
    assert.equal(await hold.guard('INCR', '{g}v'), 2);
    assert.equal(await hold.guard('GET', '{g}none'), null);
    await assert.rejects(hold.guard('LPUSH', '{g}v', 'x'), (error) => error instanceof Refused && /^multi-key lock "{g}a", "{g}b": WRONGTYPE /.test(error.message));
    await assert.rejects(hold.guard('NOSUCH'), (error) => error instanceof Refused && !(error instanceof ModuleMissing));
    await server.ask.call('LOCK.FORCE', '{g}a');
    await assert.rejects(hold.guard('INCR', '{g}v'), NotHeld);
    assert.equal(hold.isLost, true);
    assert.equal(await server.ask.get('{g}v'), '2');
    await assert.rejects(hold.release(), NotHeld);
    await locks.close();
  });

  test(`${name}: a hold is renewed, with another lease, without automatic renewal, and as a session`, async () => {
    const locks = library(server.port);
    const hold = await locks.lock('r', { leaseMs: 5_000, renew: false }).acquire();
    await hold.renew(60_000);
    assert.ok((await server.ask.pttl('r')) > 50_000);
    await hold.renew();
    assert.ok((await server.ask.pttl('r')) > 50_000);
    await assert.rejects(hold.renew(0), { message: 'leaseMs must be greater than 0, not 0' });
    await hold.release();
    await assert.rejects(hold.renew(), NotHeld);

    const session = await locks.multi(['r', 'q'], { session: true }).acquire();
    await session.renew();
    await assert.rejects(session.renew(1_000), { message: 'leaseMs: a session has no lease' });
    await server.ask.call('LOCK.FORCE', 'q');
    await assert.rejects(session.renew(), NotHeld);
    assert.equal(session.isLost, true);
    await assert.rejects(session.release(), NotHeld);
    await locks.close();
  });
}

test('the error says that a program waits for itself', async () => {
  const locks = LIBRARIES.ioredis!(server.port);
  const lock = locks.lock('self');
  await lock.run(async ({ owner }) => {
    const message = `lock "self" was not acquired within 0.05 s: held by ${owner} (this process)`;
    await assert.rejects(lock.acquire({ waitMs: 50 }), { name: 'NotAcquired', message });
  });
  await locks.close();
});

test('a shorter lease counts from its request, also if the reply gets lost', async () => {
  const fake = new Fake((args) => (args[0] === 'LOCK.RENEW' ? never() : 1));
  const locks = new Locks(fake);
  const hold = await locks.lock('k', { watch: false }).acquire();
  const start = performance.now();
  const renewal = hold.renew(100);
  await once(hold.signal, 'abort');
  assert.ok(performance.now() - start < 1_000);
  await assert.rejects(renewal, { code: 'ETIMEDOUT' });
  await assert.rejects(hold.release(), NotHeld);
  await locks.close();
});

test('a longer lease counts from its reply on, and then also for automatic renewals', async () => {
  let answers = false;
  const fake = new Fake((args) => (args[0] === 'LOCK.RENEW' && !answers ? never() : 1));
  const locks = new Locks(fake);
  const lost = await locks.lock('k', { leaseMs: 100, renew: false, watch: false }).acquire();
  void lost.renew(60_000).catch(() => {});
  await once(lost.signal, 'abort');

  answers = true;
  const hold = await locks.lock('l', { leaseMs: 60_000 }).acquire();
  await hold.renew(90);
  await until(() => fake.of('LOCK.RENEW').length > 4);
  assert.deepEqual(new Set(fake.of('LOCK.RENEW').slice(-3).map((args) => args[4])), new Set(['90']));
  assert.equal(hold.isLost, false);
  await hold.release();
  await locks.close();
});

test('a renewal keeps the lease of the one before it, and does not overtake it', async () => {
  let cut = false;
  const fake = new Fake((args, connection) => (args[0] === 'LOCK.RENEW' && cut ? ((cut = false), connection.close()) : 1));
  const locks = new Locks(fake);
  const hold = await locks.lock('k', { leaseMs: 10_000, renew: false }).acquire();
  await Promise.all([hold.renew(60_000), hold.renew()]);
  cut = true;
  await Promise.all([hold.renew(20_000), hold.renew(30_000)]);
  assert.deepEqual(fake.of('LOCK.RENEW').map((args) => args[4]), ['60000', '60000', '20000', '20000', '30000']);
  await hold.release();
  await locks.close();
});

test('a guarded command is not repeated after its connection was lost', async () => {
  const fake = new Fake((args, connection) => (args[0] === 'LOCK.GUARD' ? connection.close() : 1));
  const locks = new Locks(fake);
  const hold = await locks.lock('k').acquire();
  await assert.rejects(hold.guard('INCR', 'v'), { message: 'connection lost' });
  assert.deepEqual(fake.of('LOCK.GUARD'), [['LOCK.GUARD', 'k', hold.owner, 'INCR', 'v']]);
  await hold.release();
  await locks.close();
});

test('a lock that is forced is not forced again after its connection was lost; info() is repeated', async () => {
  const fake = new Fake((args, connection) => {
    return args[0] === 'LOCK.FORCE' || fake.of('LOCK.INFO').length === 1 ? connection.close() : null;
  });
  const locks = new Locks(fake);
  await assert.rejects(locks.lock('k').force(), { message: 'connection lost' });
  assert.equal(fake.of('LOCK.FORCE').length, 1);
  assert.equal(await locks.lock('k').locked(), false);
  assert.equal(fake.of('LOCK.INFO').length, 2);
  await locks.close();
});

test('a reentrant lock is entered again without a request, and released by the last release', async () => {
  const fake = new Fake((args) => (args[0] === 'LOCK.RWWRITE' ? 7 : 1));
  const locks = new Locks(fake);
  const lock = locks.write('k', { reentrant: true, fenced: true });
  let kept: Hold | undefined;
  await lock.run(async (outer) => {
    await new Promise(setImmediate);
    await locks.write('k', { reentrant: true }).run(async (inner) => {
      assert.deepEqual([inner.owner, inner.token], [outer.owner, 7]);
      kept = await lock.acquire();
      await inner.release();
      await assert.rejects(inner.release(), NotHeld);
    });
    await (await locks.write('k').acquire()).release(); // it is not reentrant
  });
  assert.equal(fake.of('LOCK.RWWRITE').length, 2);
  assert.equal(fake.of('LOCK.RELEASE').length, 1);
  await kept!.release();
  assert.equal(fake.of('LOCK.RELEASE').length, 2);
  await (await lock.acquire()).release();
  assert.equal(fake.of('LOCK.RWWRITE').length, 3, 'outside of the body it is acquired');
  await locks.close();
});

test('what cannot be entered again', async () => {
  const fake = new Fake(() => 1);
  const locks = new Locks(fake);
  const options = { reentrant: true, watch: false };
  assert.throws(() => locks.semaphore('k', 1, options), { message: 'reentrant: a semaphore cannot be entered again' });
  const run = locks.lock('k', options).run(async (hold) => {
    await assert.rejects(locks.lock('k', { ...options, fenced: true }).acquire(), /^TypeError: fenced: /);
    await (await locks.fair('k', options).acquire()).release();
    await (await locks.multi(['k'], options).acquire()).release();
    await (await new Locks(fake).lock('k', options).acquire()).release();
    const lost = once(hold.signal, 'abort'); // on a busy machine it comes before the reply
    await hold.renew(1).catch((error) => assert.ok(error instanceof NotHeld));
    await lost;
    await assert.rejects(locks.lock('k', options).acquire(), NotHeld);
  });
  await assert.rejects(run, NotHeld);
  assert.deepEqual(fake.of('LOCK.ACQUIRE').length, 2);
  await locks.close();
});

test('two bodies that run at the same time do not enter each other', async () => {
  const locks = LIBRARIES.ioredis!(server.port);
  const lock = locks.lock('both', { reentrant: true });
  let inside = 0;
  const body = async ({ owner }: Hold) => {
    assert.equal(++inside, 1);
    assert.equal(await lock.run((hold) => hold.owner), owner);
    inside--;
  };
  const worker = async () => {
    for (let round = 0; round < 20; round++) {
      await lock.run(body);
    }
  };
  await Promise.all([worker(), worker(), worker()]);
  const busy = await lock.acquire();
  await assert.rejects(lock.acquire({ waitMs: 10 }), NotAcquired);
  await busy.release();
  await locks.close();
});
