// What a program sees of servers that are not there, silent, full, or without the module.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import Redis from 'ioredis';
import { createClient } from 'redis';

import { ModuleMissing, NotAcquired, NotHeld, type Hold, type Locks } from '../src/index.js';
import { locks as ioredisLocks } from '../src/ioredis.js';
import { locks as nodeRedisLocks } from '../src/node-redis.js';
import { block } from './fake.js';
import { LIBRARIES } from './libraries.js';
import { freePort, TestServer } from './server.js';

/** How much longer everything may take on a slow machine. */
const SLOWNESS = Number(process.env.SLOWNESS ?? 3);

let server: TestServer;
before(async () => void (server = await TestServer.start()));
after(() => server.stop());

/** Calls `run`, and checks that it took at least so long, and at most 100 ms longer than `most`, in ms. */
async function lasts(least: number, most: number, run: () => Promise<unknown>): Promise<void> {
  const start = performance.now();
  await run();
  const ms = performance.now() - start;
  assert.ok(ms >= least - 1 && ms <= most + 100 * SLOWNESS, `took ${ms} ms`);
}

/** The warnings of this process whose text contains `part`. */
function warnings(part: string): { texts: string[]; stop: () => void } {
  const texts: string[] = [];
  const listener = (warning: Error) => void (warning.message.includes(part) && texts.push(warning.message));
  process.on('warning', listener);
  return { texts, stop: () => void process.off('warning', listener) };
}

for (const [name, library] of Object.entries(LIBRARIES)) {
  test(`${name}: a wrong port: the library's error after connectTimeoutMs, also without a limit`, async () => {
    const locks = library(1, {}, { connectTimeoutMs: 1_000 });
    const seen = warnings('"none"');
    await lasts(1_000, 1_000, () => assert.rejects(locks.lock('none').acquire(), { code: 'ECONNREFUSED' }));
    seen.stop();
    assert.match(seen.texts.join(), /^lock "none": no connection to 127.0.0.1:1 \(.+\); the wait goes on, for 1 s at most if none is established$/);
    await locks.close();
  });

  test(`${name}: a server that accepts connections and is silent ends no wait late`, async () => {
    const silent = createServer(() => {});
    silent.listen(0, '127.0.0.1');
    await once(silent, 'listening');
    const { port } = silent.address() as AddressInfo;
    const locks = library(port, {}, { connectTimeoutMs: 1_000 });
    await lasts(300, 300, () => assert.rejects(locks.lock('k').acquire({ waitMs: 300 }), NotAcquired));
    await lasts(0, 0, () => assert.rejects(locks.lock('k').tryAcquire(), { code: 'ETIMEDOUT' }));
    await locks.close();
    silent.close();
  });

  test(`${name}: a server that is stopped, and then killed, ends no wait late; the outage is reported once`, async () => {
    const own = await TestServer.start();
    const seen = warnings('"out"');
    const locks = library(own.port);
    const holder = await library(own.port).lock('out').acquire();
    await locks.lock('other').acquire();
    const waits = locks.lock('out').acquire({ waitMs: 800 });
    await own.waiting('out');
    own.signal('SIGSTOP');
    await lasts(0, 800, () => assert.rejects(waits, NotAcquired));
    await lasts(0, 0, () => assert.rejects(locks.lock('out').tryAcquire(), { code: 'ETIMEDOUT' }));
    own.signal('SIGKILL');
    await lasts(400, 400, () =>
      assert.rejects(locks.lock('out').acquire({ waitMs: 400 }), (error) => {
        assert.ok(error instanceof NotAcquired && error.cause instanceof Error);
        return error.message.startsWith('lock "out" was not acquired within 0.4 s: ');
      }),
    );
    await lasts(400, 400, () => assert.rejects(locks.lock('out').acquire({ waitMs: 400 }), NotAcquired));
    seen.stop();
    assert.equal(seen.texts.length, 1, seen.texts.join());
    assert.match(seen.texts[0]!, new RegExp(`^lock "out": no connection to 127.0.0.1:${own.port} \\(.+\\); the wait goes on$`));
    assert.equal(holder.isLost, false);
    await locks.close({ timeoutMs: 0 });
    await own.stop();
  });

  test(`${name}: a reply that has arrived while the event loop was blocked is read before the time is up`, async () => {
    const locks = library(server.port);
    await locks.withLock('blocked', () => {});
    const attempt = locks.lock('blocked').tryAcquire();
    // node-redis writes the request in an immediate, too.
    await new Promise(process.nextTick);
    setImmediate(() => block(300));
    const hold = await attempt;
    await hold!.release();
    await locks.close();
  });

  test(`${name}: holders are named: the text, and LOCK.INFO`, async () => {
    const [one, other] = [library(server.port), library(server.port)];
    const refused = async (lock: ReturnType<Locks['lock']>, waitMs: number, text: string) => {
      await assert.rejects(lock.acquire({ waitMs }), (error) => {
        assert.ok(error instanceof NotAcquired && error.code === 'ETIMEDOUT');
        assert.equal(error.message, text);
        return true;
      });
    };
    // A try has 100 ms, which may be too short for the first connection.
    await Promise.all([one, other].map((locks) => locks.withLock('k', () => {})));
    const hold = await one.lock('k').acquire();
    assert.match(hold.owner, new RegExp(`^[^:]+:${process.pid}:[0-9a-f]{16,}$`));
    await refused(other.lock('k'), 0, `lock "k" was not acquired: held by ${hold.owner} (this process)`);
    await refused(other.fair('k'), 50, `fair lock "k" was not acquired within 0.05 s: held by ${hold.owner} (this process)`);
    await refused(other.multi(['j', 'k']), 0, `multi-key lock "j", "k" was not acquired: held by ${hold.owner} (this process)`);
    await hold.release();
    const holds = await Promise.all([1, 2, 3, 4].map(() => one.semaphore('s', 4).acquire()));
    const text = /^semaphore "s" was not acquired: held by \S+ \(this process\), \S+ \(this process\) and 2 others$/;
    await assert.rejects(other.semaphore('s', 4).acquire({ waitMs: 0 }), { message: text });
    await Promise.all(holds.map((each) => each.release()));
    await Promise.all([one.close(), other.close()]);
  });

  test(`${name}: a server without the module: the error says so, whatever is used`, async () => {
    const plain = await TestServer.start({ module: false });
    const locks = library(plain.port);
    const missing = (of: string, use: Promise<unknown>) => {
      const message = `${of}: unknown command: is lock.so loaded on 127.0.0.1:${plain.port}?`;
      return assert.rejects(use, (error) => error instanceof ModuleMissing && error.code === 'ERR' && error.message === message);
    };
    await missing('lock "k"', locks.lock('k').acquire());
    await missing('lock "k"', locks.lock('k').info());
    await missing('lock "k"', locks.lock('k').force());
    await missing('semaphore "k"', locks.semaphore('k', 2).locked());
    await missing('latch "k"', locks.latch('k').set(1));
    await missing('latch "k"', locks.latch('k').countDown());
    await missing('latch "k"', locks.latch('k').wait());
    await missing('delayed queue "k"', locks.delayedQueue('k').push('v', 1));
    await missing('delayed queue "k"', locks.delayedQueue('k').list());
    await plain.ask.rpush('k', 'v');
    await missing('delayed queue "k"', locks.delayedQueue('k').consume(() => {}));
    await locks.close();
    await plain.stop();
  });

  test(`${name}: a full server: what holds a lock can release it`, { timeout: 60_000 }, async () => {
    const full = await TestServer.start({ more: ['--maxclients', '12'] });
    const locks = library(full.port);
    const work = async (hold: Hold) => void (await new Promise((resolve) => setTimeout(resolve, 5, hold)));
    const all = Array.from({ length: 40 }, () => locks.withLock('k', work, { leaseMs: 10_000 }));
    await Promise.all(all);
    await locks.close();
    await full.stop();
  });

  test(`${name}: a loss is reported at once by hold.signal, without an option`, async () => {
    const locks = library(server.port);
    const hold = await locks.lock('gone').acquire();
    const aborted = once(hold.signal, 'abort');
    await server.until('gone', (info) => info?.watchers === 1);
    const start = performance.now();
    await server.ask.del('gone');
    await aborted;
    assert.ok(performance.now() - start < 1_000 * SLOWNESS);
    await assert.rejects(hold.release(), NotHeld);
    await assert.rejects(hold.release(), NotHeld);
    await locks.close();
  });
}

test("the other library's client is refused, and another object too", async () => {
  const redis = new Redis({ lazyConnect: true });
  const client = createClient();
  // @ts-expect-error: the types differ
  assert.throws(() => ioredisLocks(client), { name: 'TypeError', message: /lock-so\/node-redis/ });
  // @ts-expect-error: the types differ
  assert.throws(() => nodeRedisLocks(redis), { name: 'TypeError', message: /lock-so\/ioredis/ });
  for (const other of [{}, undefined, { options: {} }]) {
    assert.throws(() => ioredisLocks(other as never), TypeError);
    assert.throws(() => nodeRedisLocks(other as never), TypeError);
  }
  redis.disconnect();
});

test('settings that differ from those of the existing locks of a client are refused', async () => {
  const redis = new Redis({ lazyConnect: true });
  const locks = ioredisLocks(redis, { maxBlockMs: 1_000 });
  assert.equal(ioredisLocks(redis), locks);
  assert.equal(ioredisLocks(redis, { maxBlockMs: 1_000 }), locks);
  const message = 'maxBlockMs: the locks of this client have 1000, not 2000';
  assert.throws(() => ioredisLocks(redis, { maxBlockMs: 2_000 }), { name: 'TypeError', message });
  await locks.close();
  assert.notEqual(ioredisLocks(redis, { maxBlockMs: 2_000 }), locks);
});

test('node-redis: a client with public options stays as it is, even if it cannot be changed', async () => {
  const client = Object.freeze(createClient({ socket: { port: server.port } }));
  await nodeRedisLocks(client).withLock('frozen', () => {});
  await nodeRedisLocks(client).close();
});

test('many sessions on one connection cause no warning', async () => {
  const seen = warnings('listeners');
  for (const library of Object.values(LIBRARIES)) {
    const locks = library(server.port);
    for (let round = 0; round < 20; round++) {
      await locks.withLock('session', () => sleep(1), { session: true });
    }
    await locks.close();
  }
  await new Promise(setImmediate);
  seen.stop();
  assert.deepEqual(seen.texts, []);
});

test('many waits on one signal cause no warning', async () => {
  const seen = warnings('listeners');
  const locks = LIBRARIES.ioredis!(server.port);
  const { signal } = new AbortController();
  await Promise.all(Array.from({ length: 30 }, () => locks.withLock('many', () => {}, { signal })));
  const hold = await locks.lock('many').acquire();
  const abort = new AbortController();
  const waits = Array.from({ length: 30 }, () => locks.lock('many').acquire({ signal: abort.signal }));
  await server.until('many', (info) => info?.waiting === 30);
  abort.abort();
  assert.equal((await Promise.allSettled(waits)).filter(({ status }) => status === 'rejected').length, 30);
  await hold.release();
  await locks.close();
  await new Promise(setImmediate);
  seen.stop();
  assert.deepEqual(seen.texts, []);
});

test('invalid waits are refused before anything is sent', async () => {
  const locks = LIBRARIES.ioredis!(await freePort());
  await assert.rejects(locks.lock('k').acquire({ waitMs: -1 }), { message: 'waitMs must not be negative, not -1' });
  assert.throws(() => LIBRARIES.ioredis!(1, {}, { maxBlockMs: 0 }), { message: 'maxBlockMs must be greater than 0, not 0' });
  await locks.close();
});
