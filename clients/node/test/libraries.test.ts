import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { after, before, test } from 'node:test';
import { join } from 'node:path';

import { Cluster } from 'ioredis';

import { NotAcquired, Refused } from '../src/index.js';
import { locks as ioredisLocks } from '../src/ioredis.js';
import { TestCluster } from './cluster.js';
import { LIBRARIES } from './libraries.js';
import { TestServer } from './server.js';

let server: TestServer;
before(async () => void (server = await TestServer.start()));
after(() => server.stop());

for (const [name, library] of Object.entries(LIBRARIES)) {
  test(`${name}: each kind is acquired, not acquired by another client, and released`, async () => {
    const [one, other] = [library(server.port), library(server.port)];
    const both = (make: (locks: typeof one) => ReturnType<typeof one.lock>) => [make(one), make(other)] as const;
    const pairs = [
      both((locks) => locks.lock('a')),
      both((locks) => locks.lock('b', { session: true })),
      both((locks) => locks.lock('c', { fenced: true })),
      both((locks) => locks.fair('d')),
      both((locks) => locks.write('e')),
      both((locks) => locks.multi(['f', 'g'])),
      both((locks) => locks.semaphore('h', 3, { permits: 2 })),
      [one.read('i'), other.write('i')] as const,
    ];
    for (const [mine, theirs] of pairs) {
      const hold = await mine.acquire({ waitMs: 30_000 });
      assert.equal(await theirs.tryAcquire(), null);
      await assert.rejects(theirs.acquire({ waitMs: 20 }), NotAcquired);
      const waits = theirs.acquire();
      await server.waiting(hold.keys[0]!);
      await hold.release();
      await (await waits).release();
      assert.equal(await server.info(hold.keys[0]!), null);
    }
    await Promise.all([one.close(), other.close()]);
  });

  test(`${name}: the database and the key prefix of the client are those of its locks`, async () => {
    const locks = library(server.port, { db: 3, keyPrefix: 'app:' });
    await locks.withLock('k', async (hold) => {
      assert.deepEqual(hold.keys, ['app:k']);
      await server.ask.select(3);
      assert.equal(await server.ask.exists('app:k'), 1);
      await server.ask.select(0);
    });
    await locks.close();
  });

  test(`${name}: the client's time-outs do not end a wait, and its type mapping does not change a token`, async () => {
    const held = await library(server.port).lock('slow').acquire();
    const locks = library(server.port, { commandMs: 100, strings: true });
    const waits = locks.lock('slow', { fenced: true }).acquire();
    await server.waiting('slow');
    const since = performance.now();
    while (performance.now() - since < 400) {
      assert.equal((await server.info('slow'))?.waiting, 1);
    }
    await held.release();
    const hold = await waits;
    assert.equal(typeof hold.token, 'number');
    await hold.release();
    await locks.close();
  });

  test(`${name}: a password is used, and a wrong one is refused at once`, async () => {
    await server.ask.config('SET', 'requirepass', 'secret');
    const [right, wrong] = [library(server.port, { password: 'secret' }), library(server.port, { password: 'no' })];
    await right.withLock('k', () => {});
    await assert.rejects(wrong.lock('k').acquire(), (error) => {
      // The first versions of ioredis 5 do not report why the password was refused.
      return error instanceof Refused && /^(WRONGPASS|NOAUTH)$/.test(error.code);
    });
    await server.ask.config('SET', 'requirepass', '');
    await Promise.all([right.close(), wrong.close()]);
  });

  test(`${name}: no server: the error is the library's, and an abort ends the wait`, async () => {
    const locks = library(1);
    await assert.rejects(locks.lock('k').acquire({ waitMs: 2_000 }), (error) => {
      assert.ok(error instanceof NotAcquired);
      assert.match(error.message, /^lock "k" was not acquired within 2 s: connect ECONNREFUSED 127.0.0.1:1$/);
      return (error.cause as { code?: string }).code === 'ECONNREFUSED';
    });
    await assert.rejects(locks.lock('k').tryAcquire(), /ECONNREFUSED|no connection to 127.0.0.1:1 within/);
    await assert.rejects(locks.lock('k').acquire({ signal: AbortSignal.timeout(30) }), { name: 'TimeoutError' });
    await locks.close();
  });

  test(`${name}: an abort leaves nothing behind, and the connection is used for the next wait`, async () => {
    const [one, other] = [library(server.port), library(server.port)];
    const hold = await one.lock('x').acquire();
    const connections = async () => Number(/connected_clients:(\d+)/.exec(await server.ask.info('clients'))![1]);
    const counted: number[] = [];
    for (let round = 0; round < 20; round++) {
      const abort = new AbortController();
      const waits = other.lock('x').acquire({ signal: abort.signal });
      await server.waiting('x');
      abort.abort();
      await assert.rejects(waits, { name: 'AbortError' });
      counted.push(await connections());
    }
    // The first may count connections of earlier tests, which are about to close.
    assert.ok(counted.at(-1)! <= counted[0]! + 2, `${counted} connections`);
    await hold.release();
    assert.equal(await server.info('x'), null);
    await Promise.all([one.close(), other.close()]);
  });

  test(`${name}: close() closes all connections`, { timeout: 30_000 }, async () => {
    const own = await TestServer.start();
    const locks = library(own.port);
    const open = async () => Number(/connected_clients:(\d+)/.exec(await own.ask.info('clients'))![1]);
    await locks.withLock('k', () => locks.withLock('l', () => {}, { session: true }));
    assert.ok((await open()) > 2);
    await locks.close();
    while ((await open()) > 1) {
      await new Promise(setImmediate);
    }
    await own.stop();
  });

  for (const how of ['closed', 'released', 'held', 'aborted']) {
    test(`${name}: a program ends by itself: ${how}`, async () => {
      const taken = library(server.port);
      const hold = how === 'aborted' ? await taken.lock('taken').acquire() : null;
      const program = join(__dirname, 'leaves.js');
      const child = spawn(process.execPath, [program, name, String(server.port), how], { stdio: ['ignore', 'pipe', 'inherit'] });
      let output = '';
      child.stdout.on('data', (data: Buffer) => (output += data.toString()));
      const limit = setTimeout(() => child.kill('SIGKILL'), 30_000);
      const [status] = (await once(child, 'close')) as [number | null];
      clearTimeout(limit);
      assert.deepEqual({ status, output }, { status: 0, output: 'done\n' });
      await hold?.release();
      await taken.close();
    });
  }
}

// OURS in src/node-redis.ts turns the library's timeout off, also for a command that was sent: otherwise the wait would
// be sent again, at the end of the queue. No shorter test notices this.
test('node-redis: a wait outlasts the 5 s that the library gives a command', { timeout: 60_000 }, async () => {
  const [one, other] = [LIBRARIES['node-redis']!(server.port), LIBRARIES['node-redis']!(server.port)];
  const hold = await one.lock('long').acquire();
  const waits = other.lock('long').acquire();
  await server.until('long', (info) => (info?.waiters[0]?.waited ?? 0) > 5_500);
  await hold.release();
  await (await waits).release();
  await Promise.all([one.close(), other.close()]);
});

// clusterConnector in src/ioredis.ts uses `startupNodes`, which is no public name of the library.
test('ioredis: locks on a Cluster that was never connected', async () => {
  const nodes = await TestCluster.start();
  const cluster = new Cluster([{ host: '127.0.0.1', port: nodes.servers[0]!.port }], { lazyConnect: true });
  const locks = ioredisLocks(cluster);
  for (const key of ['a', 'b', 'c']) {
    await (await locks.lock(key).acquire({ waitMs: 20_000 })).release();
  }
  await locks.close();
  cluster.disconnect();
  await nodes.stop();
});
