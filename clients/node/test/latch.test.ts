import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { Closed, Refused } from '../src/index.js';
import { Locks } from '../src/locks.js';
import { Fake, never, until } from './fake.js';
import { LIBRARIES } from './libraries.js';
import { TestServer } from './server.js';

let server: TestServer;
before(async () => void (server = await TestServer.start()));
after(() => server.stop());

/** Waits until this many clients are blocked. */
async function blocked(count: number): Promise<void> {
  while (!(await server.ask.info('clients')).includes(`blocked_clients:${count}\r\n`)) {
    await new Promise(setImmediate);
  }
}

for (const [name, library] of Object.entries(LIBRARIES)) {
  test(`${name}: a latch is set, counted down and opened for all`, async () => {
    const locks = library(server.port, { keyPrefix: `${name}:` }, { maxBlockMs: 100 });
    const latch = locks.latch('l');
    assert.deepEqual([await latch.count(), await latch.wait({ waitMs: 0 })], [0, true]);
    await latch.set(3, { leaseMs: 60_000 });
    assert.ok((await server.ask.pttl(`${name}:l`)) > 50_000);
    assert.deepEqual([await latch.count(), await latch.wait({ waitMs: 0 })], [3, false]);
    const start = performance.now();
    assert.equal(await latch.wait({ waitMs: 250 }), false);
    assert.ok(performance.now() - start >= 249, 'several blocking calls');
    const waits = [latch.wait(), latch.wait({ waitMs: 60_000 })];
    await blocked(2);
    assert.deepEqual([await latch.countDown(), await latch.countDown(2)], [2, 0]);
    assert.deepEqual(await Promise.all(waits), [true, true]);
    await latch.set(1);
    await latch.set(0);
    assert.equal(await server.ask.exists(`${name}:l`), 0);
    await locks.close();
  });

  test(`${name}: a wait for a latch ends by a signal, and by close(), and leaves nothing behind`, async () => {
    const locks = library(server.port);
    const latch = locks.latch('l');
    await latch.set(1);
    const abort = new AbortController();
    const aborted = latch.wait({ signal: abort.signal });
    const closed = latch.wait();
    await blocked(2);
    abort.abort(new Error('enough'));
    await assert.rejects(aborted, { message: 'enough' });
    await blocked(1);
    await Promise.all([assert.rejects(closed, Closed), locks.close()]);
    await blocked(0);
    await assert.rejects(latch.count(), Closed);
    await server.ask.del('l');
  });

  test(`${name}: a wait for a latch survives that its connection is lost`, async () => {
    const locks = library(server.port);
    const latch = locks.latch('l');
    await latch.set(1);
    const wait = latch.wait();
    await blocked(1);
    await server.ask.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    await blocked(1);
    await latch.countDown();
    assert.equal(await wait, true);
    await server.ask.set('l', 'x');
    await assert.rejects(locks.lock('l').acquire(), (error) => error instanceof Refused && /^lock "l": WRONGTYPE /.test(error.message));
    await assert.rejects(latch.set(1), Refused);
    await server.ask.del('l');
    await locks.close();
  });
}

test('invalid numbers are refused before anything is sent', async () => {
  const fake = new Fake(() => 1);
  const locks = new Locks(fake);
  const latch = locks.latch('l');
  await assert.rejects(latch.set(-1), { message: 'count must be a whole number and not negative, not -1' });
  await assert.rejects(latch.set(1, { leaseMs: 0 }), { message: 'leaseMs must be greater than 0, not 0' });
  await assert.rejects(latch.countDown(0), { message: 'by must be at least 1, not 0' });
  await assert.rejects(latch.wait({ waitMs: -1 }), { message: 'waitMs must not be negative, not -1' });
  assert.throws(() => locks.latch(7 as unknown as string), { message: 'a key must be a string, not 7' });
  assert.equal(fake.sent.length, 0);
  await locks.close();
});

test('a silent server ends no wait late; a latch is not set or counted down twice', async () => {
  const fake = new Fake((args, connection) => (args[0] === 'LATCH.WAIT' ? never() : connection.close()));
  const latch = new Locks(fake).latch('l');
  const start = performance.now();
  assert.equal(await latch.wait({ waitMs: 50 }), false);
  await assert.rejects(latch.wait({ waitMs: 0 }), { code: 'ETIMEDOUT' });
  assert.ok(performance.now() - start < 1_000);
  await until(() => fake.connections.some(({ closed }) => closed));
  await assert.rejects(latch.countDown(), { message: 'connection lost' });
  await assert.rejects(latch.set(1), { message: 'connection lost' });
  assert.deepEqual([fake.of('LATCH.DOWN').length, fake.of('LATCH.SET').length], [1, 1]);
});
