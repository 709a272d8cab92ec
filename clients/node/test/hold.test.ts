import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { ServerError } from '../src/errors.js';
import { NotHeld, Refused, type Hold } from '../src/index.js';
import { Locks } from '../src/locks.js';
import { block, Fake, later, never, until } from './fake.js';

function notHeld(): never {
  throw new ServerError('NOTHELD the owner holds no such lock');
}

test('a release that was cut is repeated: NOTHELD means that the first one was executed', async () => {
  const fake = new Fake((args, connection) => {
    if (args[0] !== 'LOCK.RELEASE') {
      return 1;
    }
    return fake.of('LOCK.RELEASE').length === 1 ? connection.close() : notHeld();
  });
  const locks = new Locks(fake);
  await (await locks.lock('k').acquire()).release();
  assert.equal(fake.of('LOCK.RELEASE').length, 2);
  await locks.close();
});

test('NOTHELD for the first release is a loss, also after an error that shows that nothing was executed', async () => {
  const fake = new Fake((args) => {
    if (args[0] !== 'LOCK.RELEASE') {
      return 1;
    }
    if (fake.of('LOCK.RELEASE').length === 2) {
      throw new ServerError('READONLY a replica');
    }
    return notHeld();
  });
  const locks = new Locks(fake);
  for (let round = 0; round < 2; round++) {
    const hold = await locks.lock('k').acquire();
    await assert.rejects(hold.release(), NotHeld);
    assert.equal(hold.isLost, false, 'it is not reported after the release');
  }
  await locks.close();
});

test('NOTHELD after an error reply and a refused connection is a loss: nothing was executed before', async () => {
  const fake = new Fake((args) => {
    if (args[0] !== 'LOCK.RELEASE') {
      return 1;
    }
    if (fake.of('LOCK.RELEASE').length > 1) {
      return notHeld();
    }
    const connect = fake.connect.bind(fake);
    fake.connect = () => ((fake.connect = connect), Promise.reject(new Error('refused')));
    throw new ServerError('LOADING the dataset');
  });
  const locks = new Locks(fake);
  const hold = await locks.lock('k').acquire();
  await assert.rejects(hold.release(), NotHeld);
  assert.equal(fake.of('LOCK.RELEASE').length, 2);
  await locks.close();
});

test('a second release is refused, the end of a block is not', async () => {
  const fake = new Fake(() => 1);
  const locks = new Locks(fake);
  const hold = await locks.lock('k').acquire();
  const released = hold.release();
  await assert.rejects(hold.release(), { name: 'NotHeld', message: 'lock "k" is not held: it was released before', keys: ['k'] });
  await hold[Symbol.asyncDispose]();
  await released;
  await locks.withLock('k', (inside) => inside.release());
  assert.equal(fake.of('LOCK.RELEASE').length, 2);
  await locks.close();
});

test('the lease is renewed after a third of it, until the release', async () => {
  const fake = new Fake(() => 1);
  const locks = new Locks(fake);
  const start = performance.now();
  const hold = await locks.lock('k', { leaseMs: 900 }).acquire();
  await until(() => fake.of('LOCK.RENEW').length > 0);
  assert.ok(performance.now() - start >= 298, 'not before');
  assert.deepEqual(fake.of('LOCK.RENEW'), [['LOCK.RENEW', 'k', hold.owner, 'PX', '900']]);
  await hold.release();
  await sleep(350);
  assert.equal(fake.of('LOCK.RENEW').length, 1);
  assert.equal(hold.isLost, false);
  await locks.close();
});

test('NOTHELD to a renewal aborts the signal, once', async () => {
  const fake = new Fake((args) => (args[0] === 'LOCK.ACQUIRE' ? 1 : notHeld()));
  const locks = new Locks(fake);
  const hold = await locks.lock('k', { leaseMs: 60 }).acquire();
  let aborts = 0;
  hold.signal.addEventListener('abort', () => aborts++);
  await once(hold.signal, 'abort');
  assert.ok(hold.isLost && hold.signal.reason instanceof NotHeld);
  await assert.rejects(hold.release(), NotHeld);
  assert.equal(aborts, 1);
  await locks.close();
});

test('if renewals get no reply, the hold is lost at the end of the lease, not before', async () => {
  const fake = new Fake((args) => (args[0] === 'LOCK.ACQUIRE' ? 1 : never()));
  const locks = new Locks(fake);
  const start = performance.now();
  const hold = await locks.lock('k', { leaseMs: 150 }).acquire();
  await once(hold.signal, 'abort');
  assert.ok(performance.now() - start >= 149);
  await assert.rejects(hold.release(), NotHeld);
  await locks.close();
});

test('the error of the last renewal is the cause of a loss', async () => {
  const fake = new Fake((args) => {
    if (args[0] === 'LOCK.RENEW') {
      throw new ServerError('NOPERM no');
    }
    return args[0] === 'LOCK.WATCH' ? never() : 1;
  });
  const locks = new Locks(fake);
  const hold = await locks.lock('k', { leaseMs: 60 }).acquire();
  await once(hold.signal, 'abort');
  await assert.rejects(hold.release(), (error) => {
    assert.ok(error instanceof NotHeld && error.cause instanceof Refused);
    return error.cause.code === 'NOPERM';
  });
  await locks.close();
});

test('a watch that the server refuses is not repeated, and warned about once', async () => {
  const fake = new Fake((args) => {
    if (args[0] === 'LOCK.WATCH') {
      throw new ServerError('ERR too many waiters');
    }
    return 1;
  });
  const texts: string[] = [];
  const listener = ({ message }: Error) => void texts.push(message);
  process.on('warning', listener);
  const locks = new Locks(fake);
  const hold = await locks.lock('k').acquire();
  assert.equal(hold.signal.aborted, false);
  await sleep(300);
  assert.equal(fake.of('LOCK.WATCH').length, 1);
  assert.deepEqual(texts, ['lock "k": only a renewal will notice its loss (ERR too many waiters)']);
  assert.equal(hold.isLost, false);
  await hold.release();
  process.off('warning', listener);
  await locks.close();
});

test('the release of a hold that is lost does not wait for the server', async () => {
  const fake = new Fake((args) => (args[0] === 'LOCK.ACQUIRE' ? 1 : never()));
  const locks = new Locks(fake);
  const hold = await locks.lock('k', { leaseMs: 50 }).acquire();
  await until(() => hold.isLost);
  const start = performance.now();
  await assert.rejects(hold.release(), NotHeld);
  assert.ok(performance.now() - start < 1_000);
  await until(() => fake.of('LOCK.RELEASE').length > 0);
  await locks.close();
});

test('a renewal whose connection fails is repeated within the lease', async () => {
  const renewed = later();
  const fake = new Fake((args, connection) => {
    const renewals = fake.of('LOCK.RENEW').length;
    if (args[0] === 'LOCK.RENEW' && renewals === 1) {
      connection.close();
    } else if (renewals === 3) {
      renewed.resolve(null);
    }
    return 1;
  });
  const locks = new Locks(fake);
  const hold = await locks.lock('k', { leaseMs: 3_000 }).acquire();
  await renewed.promise;
  assert.equal(hold.isLost, false);
  await hold.release();
  await locks.close();
});

test('a watch reports a loss, but not a release', async () => {
  const lost = later();
  const fake = new Fake((args) => (args[0] === 'LOCK.WATCH' ? lost.promise : 1));
  const locks = new Locks(fake);
  const hold = await locks.lock('k').acquire();
  const aborted = once(hold.signal, 'abort');
  lost.resolve('LOST');
  await aborted;
  const message = 'lock "k" is not held: the server reported its loss';
  await assert.rejects(hold.release(), { name: 'NotHeld', message });
  const other = await locks.lock('k').acquire();
  assert.equal(other.signal.aborted, false);
  await other.release();
  assert.equal(other.isLost, false);
  const unwatched = await locks.lock('k', { watch: false }).acquire();
  assert.equal(unwatched.signal.aborted, false);
  await unwatched.release();
  assert.equal(fake.of('LOCK.WATCH').length, 2);
  await locks.close();
});

test("the body's error is not masked by a loss, and a loss is reported if the body succeeds", async () => {
  const fake = new Fake((args) => (args[0] === 'LOCK.RELEASE' ? notHeld() : 1));
  const locks = new Locks(fake);
  const body = () => Promise.reject(new RangeError('the body'));
  await assert.rejects(locks.withLock('k', body), { message: 'the body' });
  await assert.rejects(locks.withLock('k', () => 1), NotHeld);
  await locks.close();
});

test('withLock returns what the body returns, and passes its options on', async () => {
  const fake = new Fake(() => 7);
  const locks = new Locks(fake);
  assert.equal(await locks.withLock('k', (hold) => hold.token, { kind: 'fair', fenced: true, leaseMs: 500, waitMs: 0 }), 7);
  assert.match(fake.sent[0]!.join(' '), /^LOCK.FAIR k \S+ PX 500 FENCED ONCE$/);
  await locks.withLock(['a', 'b'], () => {});
  assert.throws(() => locks.withLock(['a', 'b'], () => {}, { kind: 'fair' }), { message: 'keys: a fair lock has one key, not 2' });
  assert.throws(() => locks.withLock({ read: ['a'] }, () => {}, { kind: 'fair' }), { message: 'keys: a fair lock has no { read, write }' });
  await assert.rejects(locks.withLock('c', { waitMs: 1 } as never), { name: 'TypeError', message: 'body must be a function, not [object Object]' });
  assert.deepEqual([fake.of('LOCK.MACQUIRE').length, fake.of('LOCK.ACQUIRE').length], [1, 0]);
  await locks.close();
});

test('if one key of a multi-key lock was lost, the others are released', async () => {
  const fake = new Fake((args) => (args[0] === 'LOCK.MRELEASE' ? notHeld() : 1));
  const locks = new Locks(fake);
  const hold = await locks.multi(['a', 'b']).acquire();
  await assert.rejects(hold.release(), NotHeld);
  assert.deepEqual(fake.of('LOCK.RELEASE').map((args) => args[1]), ['a', 'b']);
  await locks.close();
});

test('a session whose connection is lost is bound to another one', async () => {
  const bound = later();
  const fake = new Fake((args) => {
    if (args[0] === 'LOCK.RENEW') {
      bound.resolve(args);
    }
    return 1;
  });
  const locks = new Locks(fake);
  const hold = await locks.lock('k', { session: true }).acquire();
  fake.connections[1]?.close();
  assert.deepEqual(await bound.promise, ['LOCK.RENEW', 'k', hold.owner, 'SESSION']);
  assert.equal(hold.isLost, false);
  await hold.release();
  await locks.close();
});

test('all keys of a session are bound to another connection, and renewed otherwise, in one command', async () => {
  const bound = later();
  const fake = new Fake((args) => (args[0] === 'LOCK.MRENEW' ? (bound.resolve(1), bound.promise) : 1));
  const locks = new Locks(fake);
  const hold = await locks.multi(['a', 'b', 'c'], { session: true }).acquire();
  fake.connections[1]?.close();
  await bound.promise;
  assert.deepEqual(fake.of('LOCK.MRENEW').map((args) => args.join(' ')), [`LOCK.MRENEW 3 a b c ${hold.owner} SESSION`]);
  await hold.release();
  const renewed = await locks.multi({ read: ['a'], write: ['b'] }, { leaseMs: 60 }).acquire();
  await until(() => fake.of('LOCK.MRENEW').length > 2);
  assert.equal(fake.of('LOCK.MRENEW')[1]?.join(' '), `LOCK.MRENEW 2 a b ${renewed.owner} PX 60`);
  assert.deepEqual(fake.of('LOCK.RENEW'), []);
  await renewed.release();
  await locks.close();
});

test('an error reply on the connection of a session does not end it', async () => {
  const fake = new Fake((args) => {
    if (args[0] === 'PING') {
      throw new ServerError('BUSY a script runs');
    }
    return 1;
  });
  const locks = new Locks(fake);
  const hold = await locks.lock('k', { session: true, leaseMs: 90 }).acquire();
  await until(() => fake.of('PING').length > 4);
  assert.ok(!hold.isLost && fake.connections.every(({ closed }) => !closed));
  assert.deepEqual(fake.of('LOCK.RENEW'), []);
  await hold.release();
  await locks.close();
});

test('a session that the server has ended is lost', async () => {
  const fake = new Fake((args) => (args[0] === 'LOCK.RENEW' ? notHeld() : 1));
  const locks = new Locks(fake);
  const hold = await locks.lock('k', { session: true }).acquire();
  const aborted = once(hold.signal, 'abort');
  fake.connections[1]?.close();
  await aborted;
  await assert.rejects(hold.release(), NotHeld);
  await locks.close();
});

test('a hold does not keep the process alive, a pending reply does', async () => {
  const answer = later();
  const fake = new Fake(() => answer.promise);
  const locks = new Locks(fake);
  const waits = locks.lock('k').acquire();
  await new Promise(setImmediate);
  assert.ok(fake.connections[1]?.alive);
  answer.resolve(1);
  const hold = await waits;
  await new Promise(setImmediate);
  assert.ok(fake.connections.every(({ alive }) => !alive));
  await hold.release();
  await locks.close();
});

test('close() releases holds', async () => {
  const fake = new Fake(() => 1);
  const locks = new Locks(fake);
  const hold = await locks.lock('k').acquire();
  await locks.close();
  assert.deepEqual(fake.of('LOCK.RELEASE'), [['LOCK.RELEASE', 'k', hold.owner]]);
});

test('a refused release is Refused', async () => {
  const fake = new Fake((args) => {
    if (args[0] === 'LOCK.RELEASE') {
      throw new ServerError('NOPERM no');
    }
    return 1;
  });
  const locks = new Locks(fake);
  const hold = await locks.lock('k').acquire();
  await assert.rejects(hold.release(), (error) => error instanceof Refused && error.code === 'NOPERM');
  await locks.close();
});

test('the lease begins when the request is sent: a blocked event loop does not extend it', async () => {
  const fake = new Fake((args) => (args[0] === 'LOCK.WATCH' ? never() : (block(80), 1)));
  const locks = new Locks(fake);
  const start = performance.now();
  const hold = await locks.lock('k', { leaseMs: 300, renew: false }).acquire();
  await once(hold.signal, 'abort');
  assert.ok(performance.now() - start < 360, `${performance.now() - start} ms`);
  await locks.close();
});

for (const renew of [true, false]) {
  test(`after a wait of more than a third of the lease it is renewed at once: renew: ${renew}`, async () => {
    const granted = later();
    const fake = new Fake((args) => (args[0] === 'LOCK.ACQUIRE' ? granted.promise : 1));
    const locks = new Locks(fake);
    const waits = locks.lock('k', { leaseMs: 900, renew }).acquire();
    await sleep(350);
    granted.resolve(1);
    const hold = await waits;
    const start = performance.now();
    await until(() => fake.of('LOCK.RENEW').length > 0);
    assert.ok(performance.now() - start < 200);
    await sleep(350);
    assert.equal(fake.of('LOCK.RENEW').length, renew ? 2 : 1);
    await hold.release();
    await locks.close();
  });
}

test('a blocked event loop: isLost and the signal do not wait for the timer', async () => {
  const locks = new Locks(new Fake((args) => (args[0] === 'LOCK.WATCH' ? never() : 1)));
  const hold = await locks.lock('k', { leaseMs: 50 }).acquire();
  const { signal } = hold;
  assert.equal(hold.isLost, false);
  block(60);
  assert.equal(hold.isLost, true);
  assert.ok(signal.aborted && signal.reason instanceof NotHeld);
  const other = await locks.lock('k', { leaseMs: 50 }).acquire();
  block(60);
  assert.ok(other.signal.aborted);
  await locks.close();
});

test('a connection that many sessions have used keeps nothing of them', async () => {
  const fake = new Fake((args) => (args[0] === 'LOCK.WATCH' ? sleep(1, null) : 1));
  const locks = new Locks(fake);
  const signals: WeakRef<AbortSignal>[] = [];
  for (let round = 0; round < 20; round++) {
    await locks.withLock('k', (hold) => (signals.push(new WeakRef(hold.signal)), sleep(2)), { session: true });
  }
  assert.ok(fake.connections.every(({ listeners }) => listeners.length === 1));
  await until(() => (global.gc!(), signals.filter((signal) => signal.deref() !== undefined).length <= 1));
  await locks.close();
});

test('a hold whose signal is used, or that nothing renews, is not released when it is collected', async () => {
  const fake = new Fake((args) => (args[0] === 'LOCK.WATCH' ? never() : 1));
  const locks = new Locks(fake);
  const { signal } = await locks.lock('used').acquire();
  await locks.lock('unrenewed', { renew: false }).acquire();
  await locks.lock('forgotten').acquire();
  while (fake.of('LOCK.RELEASE').length === 0) {
    await sleep(5);
    global.gc!();
  }
  await sleep(20);
  assert.deepEqual(fake.of('LOCK.RELEASE').map((args) => args[1]), ['forgotten']);
  assert.equal(signal.aborted, false);
  await locks.close();
});

test('locks are not collected before their holds, and then closed', async () => {
  const fake = new Fake(() => 1);
  let hold: Hold | null = await new Locks(fake).lock('k').acquire();
  for (let round = 0; round < 10; round++) {
    await sleep(5);
    global.gc!();
  }
  assert.ok(fake.connections.every(({ closed }) => !closed));
  assert.equal(hold.isLost, false);
  hold = null;
  while (fake.connections.some(({ closed }) => !closed)) {
    await sleep(5);
    global.gc!();
  }
  assert.equal(fake.of('LOCK.RELEASE').length, 1);
});

test('a release that is sent again after the lease has expired, and gets NOTHELD, is a loss', async () => {
  const fake = new Fake(async (args, connection) => {
    if (args[0] !== 'LOCK.RELEASE') {
      return 1;
    }
    if (fake.of('LOCK.RELEASE').length === 1) {
      return connection.close();
    }
    await sleep(200);
    return notHeld();
  });
  const locks = new Locks(fake);
  const hold = await locks.lock('k', { leaseMs: 100, renew: false }).acquire();
  await assert.rejects(hold.release(), NotHeld);
  await locks.close();
});
