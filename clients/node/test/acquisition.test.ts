import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { Closed, Deadlock, NotAcquired, Refused } from '../src/index.js';
import { ServerError } from '../src/errors.js';
import { Locks } from '../src/locks.js';
import { Fake, FakeConnection, later, never, until } from './fake.js';

/** The argument after a word of a command. */
function after(args: string[] | undefined, word: string): string | undefined {
  return args?.[args.indexOf(word) + 1];
}

test('an abort that overtakes the request: LOCK.CANCEL is repeated until the request has arrived', async () => {
  const granted = later();
  const received = later();
  let holds = 0;
  const fake = new Fake((args) => {
    if (args[0] === 'LOCK.ACQUIRE') {
      received.resolve(null);
      return granted.promise;
    }
    const had = holds;
    holds = 0;
    // The request arrives just after the first LOCK.CANCEL, and is granted.
    if (fake.of('LOCK.CANCEL').length === 1) {
      holds = 1;
      granted.resolve(1);
    }
    return had > 0 ? 2 : 0;
  });
  const locks = new Locks(fake);
  const abort = new AbortController();
  const waits = locks.lock('k').acquire({ signal: abort.signal });
  await received.promise;
  abort.abort(new Error('enough'));
  await assert.rejects(waits, { message: 'enough' });
  assert.equal(holds, 0);
  await locks.close();
});

test('an abort waits 2 s at most for a server that does not respond, and continues in the background', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const received = later();
  const fake = new Fake(() => {
    received.resolve(null);
    return never();
  });
  const locks = new Locks(fake);
  const abort = new AbortController();
  const waits = locks.lock('k').acquire({ signal: abort.signal });
  let ended = false;
  waits.catch(() => (ended = true));
  await received.promise;
  abort.abort();
  // Lets pending callbacks set their timers before the time advances.
  const step = async (ms: number) => {
    await new Promise(setImmediate);
    t.mock.timers.tick(ms);
    await new Promise(setImmediate);
  };
  await step(1_900);
  assert.equal(ended, false);
  await step(200);
  await assert.rejects(waits, { name: 'AbortError' });
  while (fake.of('LOCK.CANCEL').length < 2) {
    await step(100);
  }
  t.mock.timers.reset();
  await locks.close();
});

test('with a signal that is aborted already, nothing is sent', async () => {
  const fake = new Fake(() => 1);
  await assert.rejects(new Locks(fake).lock('k').acquire({ signal: AbortSignal.abort() }), { name: 'AbortError' });
  assert.deepEqual(fake.sent, []);
});

test('listeners on the signal are removed', async () => {
  const { signal } = new AbortController();
  let listeners = 0;
  const [add, remove] = [signal.addEventListener.bind(signal), signal.removeEventListener.bind(signal)];
  signal.addEventListener = (...args: Parameters<typeof add>) => (listeners++, add(...args));
  signal.removeEventListener = (...args: Parameters<typeof remove>) => (listeners--, remove(...args));
  const locks = new Locks(new Fake(() => 1));
  await (await locks.lock('k').acquire({ signal })).release();
  assert.equal(listeners, 0);
  await locks.close();
});

test('after a lost connection the same owner sends the request again, for the rest of the wait', async () => {
  const fake = new Fake((args, connection) => {
    if (args[0] === 'LOCK.ACQUIRE' && fake.of('LOCK.ACQUIRE').length === 1) {
      connection.close();
    }
    return 1;
  });
  const locks = new Locks(fake);
  const hold = await locks.lock('k').acquire({ waitMs: 5_000 });
  const [first, second] = fake.of('LOCK.ACQUIRE');
  assert.equal(second?.[2], first?.[2]);
  assert.equal(hold.owner, first?.[2]);
  assert.ok(second?.includes('ONCE'));
  assert.ok(Number(after(second, 'BLOCK')) <= 4_985, 'after a pause');
  await hold.release();
  await locks.close();
});

for (const code of ['READONLY', 'UNBLOCKED', 'LOADING', 'CLUSTERDOWN', 'TRYAGAIN', 'MASTERDOWN']) {
  const connections = code === 'TRYAGAIN' ? 1 : 2;
  test(`after ${code} the request is sent again, on ${connections === 1 ? 'the same' : 'a new'} connection`, async () => {
    const used: unknown[] = [];
    const fake = new Fake((args, connection) => {
      if (args[0] === 'LOCK.ACQUIRE') {
        used.push(connection);
        if (used.length === 1) {
          throw new ServerError(`${code} not now`);
        }
      }
      return 1;
    });
    const locks = new Locks(fake);
    await (await locks.lock('k').acquire({ waitMs: 5_000 })).release();
    assert.equal(new Set(used).size, connections);
    await locks.close();
  });
}

test('when the wait times out, a connection error is the cause, and nothing is left', async () => {
  const fake = new Fake((args, connection) => (args[0] === 'LOCK.ACQUIRE' ? connection.close() : 0));
  const locks = new Locks(fake);
  await assert.rejects(locks.lock('k').acquire({ waitMs: 50 }), (error) => {
    assert.ok(error instanceof NotAcquired && error.cause instanceof Error);
    assert.equal(error.message, 'lock "k" was not acquired within 0.05 s: connection lost (server:6379)');
    return error.cause.message === 'connection lost';
  });
  await assert.rejects(locks.lock('k').acquire({ waitMs: 0 }), { message: 'connection lost' });
  // A request whose connection was lost is cancelled.
  await until(() => new Set(fake.of('LOCK.CANCEL').map((args) => args[2])).size === 2);
  await locks.close();
});

/** Replies null when BLOCK times out, but 1 to the request with this number. */
function grantsAt(number: number): { fake: Fake; used: Set<unknown> } {
  const used = new Set<unknown>();
  const fake: Fake = new Fake((args, connection) => {
    used.add(connection);
    const block = Number(after(args, 'BLOCK'));
    return fake.sent.length < number ? new Promise((resolve) => setTimeout(resolve, block, null)) : 1;
  });
  return { fake, used };
}

test('a blocking call that times out is followed by the next, on the same connection', async () => {
  const { fake, used } = grantsAt(3);
  const locks = new Locks(fake, { maxBlockMs: 20 });
  const hold = await locks.lock('k').acquire();
  assert.equal(used.size, 1);
  assert.deepEqual(fake.of('LOCK.ACQUIRE').map((args) => after(args, 'BLOCK')), ['20', '20', '20']);
  await hold.release();
  await locks.close();
});

test('a wait that times out sends no LOCK.CANCEL', async () => {
  const { fake } = grantsAt(Infinity);
  const locks = new Locks(fake, { maxBlockMs: 20 });
  await assert.rejects(locks.lock('k').acquire({ waitMs: 50 }), NotAcquired);
  assert.deepEqual(fake.of('LOCK.CANCEL'), []);
  await locks.close();
});

test('BLOCK is what is left when the connection is established', async () => {
  const { fake } = grantsAt(Infinity);
  const connect = fake.connect.bind(fake);
  fake.connect = async (...args) => (await sleep(100), connect(...args));
  const locks = new Locks(fake);
  await assert.rejects(locks.lock('k').acquire({ waitMs: 1_000 }), NotAcquired);
  assert.ok(Number(after(fake.of('LOCK.ACQUIRE')[0], 'BLOCK')) <= 802);
  await locks.close();
});

test('a null before the time-out causes no busy loop', async () => {
  const fake = new Fake(() => null);
  const locks = new Locks(fake);
  await assert.rejects(locks.lock('k').acquire({ waitMs: 200 }), NotAcquired);
  assert.ok(fake.sent.length < 10, `sent ${fake.sent.length} times`);
  await locks.close();
});

test('a fair wait ends a blocking call by closing the connection, and its BLOCK is all that is left', async () => {
  const fake = new Fake((args) => (args[0] === 'LOCK.FAIR' && fake.of('LOCK.FAIR').length < 3 ? never() : 1));
  const locks = new Locks(fake, { maxBlockMs: 20 });
  const hold = await locks.fair('k').acquire();
  const requests = fake.of('LOCK.FAIR');
  assert.deepEqual(requests.map((args) => after(args, 'BLOCK')), ['0', '0', '0']);
  assert.equal(new Set(requests.map((args) => args[2])).size, 1);
  await hold.release();
  await locks.close();
});

test('a fair grant that waits for replicas is not cut', async () => {
  const fake = new Fake((args) => (args[0] === 'LOCK.FAIR' ? sleep(100, 1) : 1));
  const locks = new Locks(fake, { maxBlockMs: 20 });
  const hold = await locks.fair('k', { replicas: { count: 1, ms: 1_000 } }).acquire();
  assert.equal(fake.of('LOCK.FAIR').length, 1);
  await hold.release();
  await locks.close();
});

test('after a planned failover the idle connections to the old master are not tried one by one', async () => {
  let old: FakeConnection[] = [];
  const fake = new Fake((args, connection) => {
    if (old.includes(connection) && args[0] === 'LOCK.ACQUIRE') {
      throw new ServerError('READONLY a replica');
    }
    return args[0] === 'LOCK.ACQUIRE' ? sleep(5, 1) : 1;
  });
  const locks = new Locks(fake);
  await Promise.all(Array.from({ length: 8 }, (_, number) => locks.withLock(`k${number}`, () => {})));
  old = [...fake.connections];
  const sent = fake.of('LOCK.ACQUIRE').length;
  await (await locks.lock('k').acquire()).release();
  assert.equal(fake.of('LOCK.ACQUIRE').length - sent, 2);
  await locks.close();
});

test('a full server: one warning, and a connection that is given back goes to a wait that can use it', async (t) => {
  const answers: { key: string | undefined; resolve: (reply: unknown) => void }[] = [];
  const fake = new Fake(([name, key], { node }) => {
    const master = key === 'x' ? 1 : 2;
    if (name !== 'LOCK.ACQUIRE') {
      return 1;
    }
    if (node?.port !== master) {
      throw new ServerError(`MOVED 7 a:${master}`);
    }
    return new Promise((resolve) => answers.push({ key, resolve }));
  });
  fake.nodes = () => [1, 2, 3].map((port) => ({ host: 'a', port }));
  const locks = new Locks(fake);
  const waits = [locks.lock('x').acquire(), locks.lock('y').acquire()];
  await until(() => answers.length === 2);
  const connect = fake.connect.bind(fake);
  let refused = 0;
  fake.connect = (node, ...limits) =>
    node?.port === 3 ? connect(node, ...limits) : (refused++, Promise.reject(new ServerError('ERR max number of clients reached')));
  const texts: string[] = [];
  const listener = ({ message }: Error) => void texts.push(message);
  process.on('warning', listener);
  // No pause ends by itself.
  t.mock.timers.enable({ apis: ['setTimeout'] });
  for (const key of ['y', 'x']) {
    const before = refused;
    waits.push(locks.lock(key).acquire());
    while (refused === before) {
      await new Promise(setImmediate);
    }
    await new Promise(setImmediate);
  }
  answers.find(({ key }) => key === 'x')!.resolve(1);
  for (let round = 0; round < 20 && answers.length < 3; round++) {
    await new Promise(setImmediate);
  }
  t.mock.timers.reset();
  process.off('warning', listener);
  assert.equal(answers[2]?.key, 'x');
  const text = (key: string, port: number) =>
    `lock "${key}": no connection to a:${port} (ERR max number of clients reached); the wait goes on`;
  assert.deepEqual(texts, [text('y', 2), text('x', 1)]);
  fake.connect = connect;
  waits.forEach((wait) => wait.catch(() => {}));
  await locks.close({ timeoutMs: 0 });
});

test('error replies end the wait', async () => {
  const replies = ['DEADLOCK a waits for b', 'WRONGTYPE no lock'];
  const fake = new Fake(() => {
    throw new ServerError(replies.shift() ?? 'ERR');
  });
  const locks = new Locks(fake);
  await assert.rejects(locks.lock('k').acquire(), (error) => error instanceof Deadlock && error.message.includes('a waits'));
  await assert.rejects(locks.lock('k').acquire(), (error) => error instanceof Refused && error.code === 'WRONGTYPE');
  assert.equal(fake.sent.length, 2, 'neither is sent again or cancelled');
  await locks.close();
});

test('close() gives up waits', async () => {
  const received = later();
  const waiting = later();
  const fake = new Fake((args) => {
    if (args[0] === 'LOCK.CANCEL') {
      waiting.resolve(null);
      return 1;
    }
    received.resolve(null);
    return waiting.promise;
  });
  const locks = new Locks(fake);
  const waits = locks.lock('k').acquire();
  const refused = assert.rejects(waits, Closed);
  await received.promise;
  await locks.close();
  await refused;
  assert.equal(fake.of('LOCK.CANCEL').length, 1);
  assert.ok(fake.connections.every((connection) => connection.closed));
  await assert.rejects(locks.lock('k').acquire(), Closed);
});

test('tries share one connection, also when there is no reply in time', async () => {
  const fake = new Fake((args) => (args[0] === 'LOCK.ACQUIRE' ? (fake.of('LOCK.ACQUIRE').length > 20 ? 1 : null) : 1));
  let refuse!: (error: Error) => void;
  const connect = fake.connect.bind(fake);
  let attempts = 0;
  fake.connect = (...args) => (attempts++ === 0 ? new Promise((_, reject) => (refuse = reject)) : connect(...args));
  const locks = new Locks(fake);
  const tries = () => Promise.all(Array.from({ length: 20 }, () => locks.lock('k').tryAcquire().catch(() => 'no connection')));
  assert.deepEqual(new Set(await tries()), new Set(['no connection']));
  assert.equal(attempts, 1);
  refuse(new Error('at last'));
  await sleep(1);
  assert.deepEqual(new Set(await tries()), new Set([null]));
  await (await locks.lock('k').tryAcquire())!.release();
  assert.equal(attempts, 2);
  await locks.close();
});

test('waits at a server that does not accept connections leave one attempt behind', async () => {
  const fake = new Fake(() => 1);
  let attempts = 0;
  fake.connect = () => (attempts++, never());
  const locks = new Locks(fake);
  await Promise.all(Array.from({ length: 20 }, () => assert.rejects(locks.lock('k').acquire({ waitMs: 20 }), NotAcquired)));
  assert.equal(attempts, 1);
  await locks.close();
});

test('an error reply neither closes nor leaks a connection', async () => {
  const fake = new Fake((args) => {
    if (args[0] === 'LOCK.ACQUIRE') {
      throw new ServerError('DEADLOCK a waits for b');
    }
    return 1;
  });
  const locks = new Locks(fake);
  for (let round = 0; round < 20; round++) {
    await assert.rejects(locks.lock('k').acquire(), Deadlock);
    await assert.rejects(locks.lock('k').tryAcquire(), Deadlock);
  }
  assert.deepEqual(fake.connections.map(({ closed }) => closed), [false, false]);
  await locks.close();
});

test('an abort that the grant has overtaken waits 2 s at most for the release', { timeout: 20_000 }, async () => {
  const abort = new AbortController();
  const fake = new Fake((args) => (args[0] === 'LOCK.RELEASE' ? never() : 1));
  const locks = new Locks(fake);
  const send = FakeConnection.prototype.send;
  // The abort comes when the reply has been received, and the caller does not know of it.
  FakeConnection.prototype.send = function (args) {
    const reply = send.call(this, args);
    args[0] === 'LOCK.ACQUIRE' && void reply.then(() => queueMicrotask(() => queueMicrotask(() => abort.abort())));
    return reply;
  };
  const start = performance.now();
  await locks.lock('k').acquire({ signal: abort.signal }).then((hold) => hold.signal, () => {});
  FakeConnection.prototype.send = send;
  assert.ok(performance.now() - start < 3_000);
  await locks.close();
});

test('what close() overtakes is released before the connections are closed', async () => {
  for (let hops = 0; hops < 30; hops++) {
    let ended = false;
    const closing = later<Promise<void>>();
    const closeSoon = async () => {
      for (let hop = 0; hop < hops; hop++) {
        await null;
      }
      closing.resolve(locks.close());
    };
    const fake = new Fake(async (args, connection) => {
      if (args[0] === 'LOCK.ACQUIRE') {
        void closeSoon();
      } else {
        await sleep(2);
        ended ||= !connection.closed;
      }
      return 1;
    });
    const locks = new Locks(fake);
    locks.lock('k').acquire({ waitMs: 10_000 }).catch(() => {});
    await closing.promise;
    assert.ok(ended, `closed after ${hops} microtasks`);
  }
});
