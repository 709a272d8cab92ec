import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { Closed, NotAcquired, NotHeld, RedLock, Refused, type Acquirable } from '../src/index.js';
import { ServerError } from '../src/errors.js';
import { Locks } from '../src/locks.js';
import { TestCluster } from './cluster.js';
import { Fake, later, never, until, type Answers } from './fake.js';
import { LIBRARIES } from './libraries.js';
import { TestServer } from './server.js';

let servers: TestServer[];
before(async () => void (servers = await Promise.all([1, 2, 3].map(() => TestServer.start()))));
after(() => Promise.all(servers.map((server) => server.stop())));

/** Waits until this many servers have the lock. */
async function held(key: string, wanted: number): Promise<void> {
  const isHeld = async (server: TestServer) => Number((await server.info(key)) !== null);
  while ((await Promise.all(servers.map(isHeld))).reduce((sum, each) => sum + each) !== wanted) {
    await new Promise(setImmediate);
  }
}

/** Acquires within so long that slow machines have the time. */
function acquired(lock: Acquirable) {
  return lock.acquire({ waitMs: 20_000 });
}

for (const [name, library] of Object.entries(LIBRARIES)) {
  test(`${name}: a majority is enough, and tokens grow`, async () => {
    const all = servers.map(({ port }) => library(port, { keyPrefix: 'p:' }));
    const lock = new RedLock(all).lock('k');
    const hold = await acquired(lock);
    await held('p:k', 3);
    assert.deepEqual([hold.kind, hold.keys, hold.isLost, hold.holds], ['redlock', ['p:k'], false, []]);
    assert.equal(await lock.tryAcquire(), null);
    const message = `RedLock "p:k" was not acquired within 0.05 s: held by ${hold.owner} (this process)`;
    await assert.rejects(lock.acquire({ waitMs: 50 }), { name: 'NotAcquired', message, holders: [hold.owner] });
    await hold.renew(60_000);
    await hold.renew();
    await assert.rejects(hold.renew(0), RangeError);
    await assert.rejects(hold.guard('PING'), TypeError);
    await hold.release();
    await assert.rejects(hold.release(), NotHeld);
    await held('p:k', 0);

    servers[2]!.signal('SIGSTOP');
    const token = await lock.run((inside) => inside.token, { waitMs: 20_000 });
    assert.ok(token! > hold.token!);
    servers[2]!.signal('SIGCONT');
    await held('p:k', 0);
    await Promise.all(all.map((locks) => locks.close()));
  });

  test(`${name}: what a majority forgets is lost, and a minority is acquired again`, async () => {
    const all = servers.map(({ port }) => library(port));
    const lock = new RedLock(all).lock('k', { leaseMs: 3_000 });
    const hold = await acquired(lock);
    await held('k', 3);
    for (const { ask } of servers) {
      await ask.call('LOCK.FORCE', 'k');
      await hold.renew();
      await held('k', 3);
      await hold.renew();
    }
    assert.equal(hold.isLost, false);
    const lost = once(hold.signal, 'abort');
    await Promise.all(servers.slice(1).map(({ ask }) => ask.call('LOCK.FORCE', 'k')));
    await lost;
    await assert.rejects(hold.release(), NotHeld);
    await held('k', 0);
    await Promise.all(all.map((locks) => locks.close()));
  });

  test(`${name}: servers that are not independent are refused`, async () => {
    const [a, b, c] = servers.map(({ port }) => library(port)) as [Locks, Locks, Locks];
    assert.throws(() => new RedLock([a, b]), { message: 'a RedLock needs at least 3 servers, not 2' });
    assert.throws(() => new RedLock([a, b, a]), { message: /^127.0.0.1:\d+ is there twice$/ });
    const again = library(servers[0]!.port);
    await assert.rejects(acquired(new RedLock([a, b, again]).lock('k')), { message: /^127.0.0.1:\d+ and 127.0.0.1:\d+ are the same server$/ });
    await servers[2]!.ask.call('REPLICAOF', '127.0.0.1', servers[0]!.port);
    await assert.rejects(acquired(new RedLock([a, b, c]).lock('k')), { message: /^127.0.0.1:\d+ is a replica, and no independent server$/ });
    await servers[2]!.ask.call('REPLICAOF', 'NO', 'ONE');
    const cluster = await TestCluster.start();
    const nodes = cluster.servers.map(({ port }) => library(port));
    await assert.rejects(acquired(new RedLock(nodes).lock('k')), { message: /are nodes of one cluster, and not independent$/ });
    await held('k', 0);
    await Promise.all([a, b, c, again, ...nodes].map((locks) => locks.close()));
    await cluster.stop();
  });

  test(`${name}: a server that accepts connections and is silent costs few of them`, async () => {
    let opened = 0;
    const silent = createServer(() => opened++).listen(0, '127.0.0.1');
    await once(silent, 'listening');
    const ports = [servers[0]!.port, servers[1]!.port, (silent.address() as AddressInfo).port];
    const all = ports.map((port) => library(port));
    const lock = new RedLock(all).lock('k', { leaseMs: 1_000 });
    for (let round = 0; round < 40; round++) {
      await (await acquired(lock)).release();
    }
    assert.ok(opened > 0 && opened < 5, `${opened} connections`);
    await Promise.all(all.map((locks) => locks.close()));
    silent.close();
  });

  test(`${name}: two programs exclude each other`, async () => {
    const programs = [1, 2].map(() => servers.map(({ port }) => library(port)));
    let inside = 0;
    await Promise.all(
      programs.map(async (all) => {
        const lock = new RedLock(all).lock('k');
        for (let round = 0; round < 4; round++) {
          await lock.run(async () => {
            assert.equal(++inside, 1);
            await new Promise(setImmediate);
            inside--;
          });
        }
      }),
    );
    await Promise.all(programs.flat().map((locks) => locks.close()));
  });
}

/** The reply that another client has the lock. */
const REFUSED = Symbol('refused');

async function refusedOr(reply: unknown): Promise<unknown> {
  const settled = await reply;
  return settled === REFUSED ? null : settled;
}

/** Three servers, of which each answers a command in this way; other commands succeed. */
function three(answers: (server: number, ...args: Parameters<Answers>) => unknown) {
  const fakes = [0, 1, 2].map((server) => {
    const fake = new Fake((args, connection) => {
      if (args[0] === 'HELLO') {
        return ['role', 'master', 'mode', 'standalone'];
      }
      return args[0] === 'INFO' ? `run_id:${server}\r\n` : refusedOr(answers(server, args, connection) ?? 7 + server);
    });
    fake.name = `server:${server}`;
    return fake;
  });
  const all = fakes.map((fake) => new Locks(fake));
  const sent = (name: string) => fakes.map((fake) => fake.of(name).length);
  return { fakes, all, sent, redlock: new RedLock(all) };
}

test('a server that has not replied gets the release behind the request, and no other request', async () => {
  const reply = later();
  const { all, sent, redlock, fakes } = three((server, [name]) => (server === 2 && name === 'LOCK.ACQUIRE' ? reply.promise : undefined));
  const hold = await redlock.lock('k', { leaseMs: 300 }).acquire();
  assert.equal(hold.token, 8);
  await until(() => sent('LOCK.RENEW')[0]! > 1);
  assert.equal(sent('LOCK.RENEW')[2], 0);
  await hold.release();
  assert.deepEqual(sent('LOCK.RELEASE'), [1, 1, 1]);
  assert.equal(fakes[2]!.connections.length, 1);
  reply.resolve(9);
  await Promise.all(all.map((locks) => locks.close()));
});

/** The reply of a server that has lost the lock. */
function notHeld(): ServerError {
  return new ServerError('NOTHELD the owner holds no such lock');
}

test('a late grant counts from the next renewal on', async () => {
  const reply = later();
  const { all, redlock } = three((server, [name]) => {
    if (server === 1 && name === 'LOCK.RENEW') {
      throw notHeld();
    }
    return server === 2 && name === 'LOCK.ACQUIRE' ? reply.promise : undefined;
  });
  const hold = await redlock.lock('k').acquire();
  reply.resolve(9);
  await new Promise(setImmediate);
  await hold.renew();
  assert.equal(hold.isLost, false);
  await hold.release();
  await Promise.all(all.map((locks) => locks.close()));
});

test('a server that is connected to late counts only after a round that had a majority without it', async () => {
  const opened = later();
  const { all, fakes, sent, redlock } = three((server, [name]) => {
    if (name === 'LOCK.RENEW' && (server === 1 || sent('LOCK.ACQUIRE')[server] === 0)) {
      throw notHeld();
    }
    return undefined;
  });
  const connect = fakes[2]!.connect.bind(fakes[2]);
  fakes[2]!.connect = async (...args) => (await opened.promise, connect(...args));
  const hold = await redlock.lock('k', { leaseMs: 400 }).acquire();
  await sleep(30); // longer than the time for a reply
  opened.resolve(null);
  await assert.rejects(hold.renew(), { name: 'NotHeld', message: /a majority of the servers has not held it all the time/ });
  await Promise.all(all.map((locks) => locks.close()));
});

test('a server whose grant is late gets the renewal, too', async () => {
  const reply = later();
  const { all, fakes, sent, redlock } = three((server, [name]) => (server === 2 && name === 'LOCK.ACQUIRE' ? reply.promise : undefined));
  const hold = await redlock.lock('k').acquire();
  await hold.renew(60_000);
  reply.resolve(9);
  await new Promise(setImmediate); // the next automatic renewal is much later
  assert.equal(sent('LOCK.RENEW')[2], 1);
  assert.deepEqual(fakes[2]!.of('LOCK.RENEW')[0]!.slice(3), ['PX', '60000']);
  await hold.release();
  await Promise.all(all.map((locks) => locks.close()));
});

test('after the release nothing is acquired, even if a renewal before it finds the lock lost', async () => {
  const reply = later();
  const { all, sent, redlock } = three((server, [name]) => (server === 2 && name === 'LOCK.RENEW' ? reply.promise : undefined));
  const hold = await redlock.lock('k', { leaseMs: 400 }).acquire();
  await hold.renew();
  await hold.release();
  reply.resolve(Promise.reject(notHeld()));
  await Promise.all(all.map((locks) => locks.close()));
  assert.deepEqual(sent('LOCK.ACQUIRE'), [1, 1, 1]);
});

test('each round has a new owner, and a failed one is released on all servers', async () => {
  const { all, fakes, sent, redlock }: ReturnType<typeof three> = three((server, [name], connection) => {
    if (name !== 'LOCK.ACQUIRE' || fakes[server]!.of(name).length > 1) {
      return undefined;
    }
    return server === 1 ? connection.close() : server === 2 ? REFUSED : undefined;
  });
  const hold = await redlock.lock('k').acquire();
  const owners = fakes.map((fake) => fake.of('LOCK.ACQUIRE').map(([, , owner]) => owner));
  assert.ok(owners[0]!.length > 1 && owners[0]![0] !== owners[0]![1]);
  assert.equal(owners[0]!.at(-1), hold.owner);
  await until(() => sent('LOCK.RELEASE').every((count) => count > 0));
  fakes.forEach((fake, at) => assert.equal(fake.of('LOCK.RELEASE')[0]![2], owners[at]![0]));
  await hold.release();
  await Promise.all(all.map((locks) => locks.close()));
});

test('a server that cannot be connected to prevents no try, and delays only the first acquisition', async () => {
  const { all, fakes, redlock } = three(() => undefined);
  fakes[2]!.connect = never;
  const lock = redlock.lock('k', { leaseMs: 20_000 });
  await (await lock.tryAcquire())!.release();
  const start = performance.now();
  await (await lock.acquire()).release();
  assert.ok(performance.now() - start < 500);
  await Promise.all(all.map((locks) => locks.close()));
});

test('a server that refuses connections delays neither the first acquisition nor its release', async () => {
  const { all, fakes, redlock } = three(() => undefined);
  fakes[2]!.connect = () => Promise.reject(new Error('connect ECONNREFUSED'));
  const start = performance.now();
  await (await redlock.lock('k', { leaseMs: 60_000 }).acquire()).release();
  assert.ok(performance.now() - start < 400, 'it has half a second to be identified, and a second to reply');
  await Promise.all(all.map((locks) => locks.close()));
});

test('the error names the holders, and not the server that cannot be connected to', async () => {
  const { all, fakes, sent, redlock } = three((_server, [name]) => {
    if (name === 'LOCK.INFO') {
      return { holders: [{ owner: 'other' }] };
    }
    return name === 'LOCK.ACQUIRE' ? REFUSED : undefined;
  });
  fakes[2]!.connect = () => Promise.reject(new Error('connect ECONNREFUSED'));
  const lock = redlock.lock('k');
  const message = 'RedLock "k" was not acquired: held by other';
  await assert.rejects(lock.acquire({ waitMs: 0 }), { name: 'NotAcquired', message, holders: ['other'] });
  assert.equal(await lock.tryAcquire(), null);
  assert.deepEqual(sent('LOCK.INFO'), [1, 1, 0]);
  await Promise.all(all.map((locks) => locks.close()));
});

test('a grant after a loss counts only after a round that had a majority without it', async () => {
  const lost = new Set<number>();
  const { all, fakes, sent, redlock } = three((server, [name]) => {
    if (name === 'LOCK.RENEW' && lost.delete(server)) {
      throw notHeld();
    }
    return undefined;
  });
  const hold = await redlock.lock('k').acquire();
  await Promise.all([hold.renew(60_000), hold.renew()]);
  assert.equal(fakes[0]!.of('LOCK.RENEW')[1]!.at(-1), '60000');
  lost.add(0);
  await hold.renew();
  assert.deepEqual(sent('LOCK.ACQUIRE'), [2, 1, 1]);
  lost.add(1);
  await hold.renew();
  assert.equal(hold.isLost, false);
  lost.add(0).add(2);
  await assert.rejects(hold.renew(), { name: 'NotHeld', message: /a majority of the servers has not held it all the time/ });
  assert.equal(hold.isLost, true);
  assert.equal(hold.signal.aborted, true);
  await Promise.all(all.map((locks) => locks.close()));
});

test('silence, refusals, aborts and close()', async () => {
  let answer: unknown = never();
  const { all, sent, redlock } = three((server, [name]) => {
    if (name === 'LOCK.ACQUIRE' && server > 0 && answer instanceof ServerError) {
      throw answer;
    }
    return name === 'LOCK.ACQUIRE' && server > 0 ? answer : undefined;
  });
  const lock = redlock.lock('k', { leaseMs: 400 });
  const start = performance.now();
  await assert.rejects(lock.acquire({ waitMs: 150 }), NotAcquired);
  await assert.rejects(lock.acquire({ waitMs: 0 }), { code: 'ETIMEDOUT' });
  assert.ok(performance.now() - start < 1_000);
  assert.ok(sent('LOCK.RELEASE').every((count) => count > 0));

  answer = new ServerError('WRONGTYPE no lock');
  await assert.rejects(lock.acquire(), Refused);
  answer = REFUSED;
  const abort = new AbortController();
  const waits = lock.acquire({ signal: abort.signal });
  const closes = lock.acquire();
  abort.abort(new Error('enough'));
  await assert.rejects(waits, { message: 'enough' });
  await Promise.all([assert.rejects(closes, Closed), all[1]!.close()]);
  await Promise.all(all.map((locks) => locks.close()));
});

test('an aborted wait requests nothing more', async () => {
  const { all, sent, redlock } = three((_server, [name]) => (name === 'LOCK.ACQUIRE' ? REFUSED : undefined));
  const abort = new AbortController();
  const waits = redlock.lock('k').acquire({ signal: abort.signal });
  await until(() => sent('LOCK.RELEASE').every((count) => count > 0));
  await new Promise(setImmediate); // it pauses for at least 20 ms
  abort.abort(new Error('enough'));
  await assert.rejects(waits, { message: 'enough' });
  assert.deepEqual(sent('LOCK.ACQUIRE'), [1, 1, 1]);
  await Promise.all(all.map((locks) => locks.close()));
});

test('a hold is lost when its lease expires, and when one of its Locks is closed, which releases it', async () => {
  let silent = false;
  const { all, sent, redlock } = three((_server, [name]) => (silent && name === 'LOCK.RENEW' ? never() : undefined));
  const kept = await redlock.lock('l').acquire();
  const hold = await redlock.lock('k', { leaseMs: 200 }).acquire();
  silent = true;
  const start = performance.now();
  await once(hold.signal, 'abort');
  assert.ok(performance.now() - start < 300);
  await assert.rejects(hold.release(), NotHeld);
  const before = sent('LOCK.RELEASE');
  await all[0]!.close();
  assert.deepEqual(sent('LOCK.RELEASE'), before.map((count) => count + 1));
  assert.deepEqual([kept.isLost, kept.signal.aborted], [true, true]);
  await assert.rejects(kept.renew(), { name: 'NotHeld', message: 'RedLock "l" is not held: its Locks were closed' });
  await Promise.all(all.map((locks) => locks.close()));
});
