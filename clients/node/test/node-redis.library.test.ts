// What docs/clients/node.md says of node-redis, without this package.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { createClient, createClientPool, createCluster, ErrorReply, RESP_TYPES, TimeoutError, type RedisClientOptions } from 'redis';

import { TestCluster } from './cluster.js';
import { Place, soFar } from './place.js';

const place = new Place();

function socket(port = place.server.port) {
  return { host: '127.0.0.1', port };
}

function opened<Client extends { destroy(): unknown }>(client: Client): Client {
  return place.closes(client, () => client.destroy());
}

/** A user's client that is connected, with the library's defaults but for these. */
async function client(options: Omit<RedisClientOptions, 'RESP'> = {}) {
  return opened(await createClient({ socket: socket(), ...options }).on('error', () => {}).connect());
}

/** A user's pool that is connected, likewise. */
async function poolOf(options: Parameters<typeof createClientPool>[1]) {
  const pool = opened(createClientPool({ socket: socket() }, options).on('error', () => {}));
  await pool.connect();
  return pool;
}

test('null and numbers are replies, errors are ErrorReply, and arguments are strings', async () => {
  const redis = await client();
  assert.equal(await redis.sendCommand(['LOCK.ACQUIRE', 'k', 'me', 'PX', '30000']), 1);
  assert.equal(await redis.sendCommand(['LOCK.ACQUIRE', 'k', 'you', 'BLOCK', '10']), null);
  const token = await redis.sendCommand(['LOCK.ACQUIRE', 'k', 'me', 'FENCED', 'ONCE']);
  assert.ok(Number.isSafeInteger(token));
  await assert.rejects(
    redis.sendCommand(['LOCK.RELEASE', 'k', 'you']),
    (error) => error instanceof ErrorReply && error.message.startsWith('NOTHELD '),
  );
  await assert.rejects(redis.sendCommand(['LOCK.RENEW', 'k', 'me', 'PX', 30_000 as unknown as string]), TypeError);
  await place.server.ask.flushall();
  assert.equal(await redis.sendCommand(['LOCK.INFO', 'k']), null);
});

test('LOCK.INFO is an object, with RESP 2 a flat array, and a Map if one says so', async () => {
  await place.hold();
  const [three, two] = [await client(), opened(await createClient({ socket: socket(), RESP: 2 }).connect())];
  const info = (await three.sendCommand(['LOCK.INFO', 'k'])) as unknown as Record<string, unknown>;
  assert.equal(info.mode, 'exclusive');
  assert.equal((info.holders as Record<string, unknown>[])[0]!.owner, 'holder');
  const flat = (await two.sendCommand(['LOCK.INFO', 'k'])) as unknown as unknown[];
  assert.deepEqual(flat.slice(0, 2), ['mode', 'exclusive']);
  assert.deepEqual((flat[3] as unknown[][])[0]!.slice(0, 2), ['owner', 'holder']);
  const map = await three.withTypeMapping({ [RESP_TYPES.MAP]: Map }).sendCommand(['LOCK.INFO', 'k']);
  assert.equal((map as unknown as Map<string, unknown>).get('waiting'), 0);
});

test('keyPrefix is not put before the keys of LOCK commands', async () => {
  const redis = await client({ keyPrefix: 'app:' });
  await redis.sendCommand(['LOCK.ACQUIRE', 'k', 'me']);
  assert.equal(await place.server.ask.exists('k'), 1);
});

test('a wait stalls all that is sent behind it, and nothing on a duplicate', async () => {
  await place.hold();
  const redis = await client();
  const other = opened(await redis.duplicate().connect());
  const order: string[] = [];
  const waits = redis.sendCommand(['LOCK.ACQUIRE', 'k', 'me', 'BLOCK', '0']).then(() => order.push('lock'));
  await place.server.waiting('k');
  const ping = redis.ping().then(() => order.push('ping'));
  assert.equal(await other.ping(), 'PONG');
  assert.deepEqual(order, []);
  await other.sendCommand(['LOCK.RELEASE', 'k', 'holder']);
  await Promise.all([waits, ping]);
  assert.deepEqual(order, ['lock', 'ping']);
});

test('neither the 5 s of the library nor a shorter timeout ends what has been sent', async () => {
  await place.hold();
  const [redis, hasty] = [await client(), await client({ commandOptions: { timeout: 2_000 } })];
  const waits = [redis, hasty].map((one, index) => one.sendCommand(['LOCK.ACQUIRE', 'k', `me ${index}`, 'BLOCK', '0']));
  await place.server.until('k', (info) => info?.waiting === 2 && info.waiters.every(({ waited }) => waited > 5_500));
  assert.equal(await soFar(Promise.race(waits)), 'pending');
  await place.release();
  assert.equal(await Promise.race(waits), 1);
  await place.server.ask.call('LOCK.CANCEL', 'k', 'me 0', 'RELEASE');
  await place.server.ask.call('LOCK.CANCEL', 'k', 'me 1', 'RELEASE');
  await Promise.all(waits);
  assert.equal(await place.server.info('k'), null);
});

test('the timeout ends what has not been sent', async () => {
  const lost = opened(createClient({ socket: socket(1), commandOptions: { timeout: 50 } }).on('error', () => {}));
  lost.connect().catch(() => {});
  await assert.rejects(lost.sendCommand(['LOCK.ACQUIRE', 'k', 'me']), { constructor: TimeoutError });
});

test('an abortSignal ends what has not been sent, and does nothing to a wait', async () => {
  await place.hold();
  const redis = await client();
  const abort = new AbortController();
  const able = redis.withAbortSignal(abort.signal);
  const waits = able.sendCommand(['LOCK.ACQUIRE', 'k', 'me', 'BLOCK', '0']);
  await place.server.waiting('k');
  abort.abort();
  assert.equal(await soFar(waits), 'pending');
  await assert.rejects(able.sendCommand(['LOCK.ACQUIRE', 'other', 'me']), { message: /abort/i });
  await place.release();
  assert.equal(await waits, 1);
  assert.equal(await place.server.info('other'), null);
});

test('socketTimeout closes the client for good: the wait ends, and nothing is sent again', async () => {
  await place.hold();
  const redis = await client({ socket: { ...socket(), socketTimeout: 2_000 } });
  const waits = redis.sendCommand(['LOCK.ACQUIRE', 'k', 'me', 'BLOCK', '0']);
  await assert.rejects(waits, { message: /^Socket timeout/ });
  await place.server.until('k', (info) => info?.waiting === 0);
  await assert.rejects(redis.ping(), { message: 'The client is closed' });
});

test('a command whose reply is lost is not sent again; to say it again with ONCE counts once', async () => {
  const port = await place.cut('LOCK.ACQUIRE');
  const redis = await client({ socket: socket(port) });
  const words = ['LOCK.ACQUIRE', 'k', 'me', 'PX', '20000', 'ONCE'];
  await assert.rejects(redis.sendCommand(words), { message: 'Socket closed unexpectedly' });
  assert.equal((await place.server.info('k'))?.holders[0]?.holds, 1);
  assert.equal(await redis.sendCommand(words), 1);
  assert.equal(await redis.sendCommand(['LOCK.RELEASE', 'k', 'me']), 0);
});

test('destroy() ends a wait, close() waits for it; LOCK.CANCEL of another client ends it with null', async () => {
  await place.hold();
  const [one, two] = [await client(), await client()];
  const wait = (redis: typeof one) => redis.sendCommand(['LOCK.ACQUIRE', 'k', 'me', 'BLOCK', '0']);
  const destroyed = assert.rejects(wait(one), { message: 'Disconnects client' });
  await place.server.waiting('k');
  one.destroy();
  await destroyed;
  await place.server.until('k', (info) => info?.waiting === 0);
  const cancelled = wait(two);
  await place.server.waiting('k');
  const closed = two.close();
  assert.equal(await soFar(closed), 'pending');
  assert.equal((await place.server.info('k'))?.waiting, 1);
  assert.equal(await place.server.ask.call('LOCK.CANCEL', 'k', 'me', 'RELEASE'), 1);
  assert.equal(await cancelled, null);
  await closed;
});

test('a promise that loses a race goes on waiting, and gets the lock', async () => {
  await place.hold();
  const redis = await client();
  const waits = redis.sendCommand(['LOCK.ACQUIRE', 'k', 'me', 'PX', '20000', 'BLOCK', '0']);
  await Promise.race([waits, place.server.waiting('k')]);
  await place.release();
  await place.server.until('k', (info) => info?.holders[0]?.owner === 'me');
  assert.equal(await place.server.ask.call('LOCK.CANCEL', 'k', 'me'), 0);
  assert.ok((await place.server.info('k'))!.holders[0]!.pttl > 15_000);
  assert.equal(await place.server.ask.call('LOCK.CANCEL', 'k', 'me', 'RELEASE'), 2);
  assert.equal(await waits, 1);
});

test('a SESSION ends with a connection that the library replaces; an error event is all that is said', async () => {
  const redis = await client();
  const errors: string[] = [];
  redis.on('error', (error: Error) => errors.push(error.message));
  await redis.sendCommand(['LOCK.ACQUIRE', 'k', 'me', 'SESSION']);
  await place.server.ask.call('CLIENT', 'KILL', 'ID', await redis.clientId());
  await place.server.until('k', (info) => info === null);
  assert.equal(await redis.ping(), 'PONG');
  assert.deepEqual(errors, ['Socket closed unexpectedly']);
  await assert.rejects(redis.sendCommand(['LOCK.RELEASE', 'k', 'me']), { message: /^NOTHELD / });
});

test('a pool that is full of waits has no connection for the release', async () => {
  const pool = await poolOf({ maximum: 1, acquireTimeout: 200 });
  assert.equal(await pool.sendCommand(['LOCK.ACQUIRE', 'k', 'holder']), 1);
  const waits = pool.sendCommand(['LOCK.ACQUIRE', 'k', 'me', 'BLOCK', '0']);
  await place.server.waiting('k');
  await assert.rejects(pool.sendCommand(['LOCK.RELEASE', 'k', 'holder']), { message: /^Timeout waiting for a client/ });
  await place.release();
  assert.equal(await waits, 1);
});

test('a pool that shrinks ends the SESSION of the connection that it closes', async () => {
  const pool = await poolOf({ minimum: 1, cleanupDelay: 50 });
  let taken = 0;
  let both = () => {};
  const together = new Promise<void>((resolve) => (both = resolve));
  const hold = (key: string) =>
    pool.execute(async (redis) => {
      await redis.sendCommand(['LOCK.ACQUIRE', key, 'me', 'SESSION']);
      taken++;
      if (taken === 2) {
        both();
      }
      await together;
    });
  await Promise.all([hold('a'), hold('b')]);
  while ((await place.server.ask.exists('a', 'b')) === 2) {
    await new Promise(setImmediate);
  }
});

test('a cluster goes by the first key that it is told, and never finds the node by another', async () => {
  const nodes = place.closes(await TestCluster.start(), (it) => it.stop());
  const rootNodes = nodes.ports.map((port) => ({ socket: socket(port) }));
  const cluster = opened(await createCluster({ rootNodes }).on('error', () => {}).connect());
  const several = ['LOCK.MACQUIRE', '2', '{7}:from', '{7}:to', 'me', 'ONCE'];
  const moved = await nodes.moved();
  for (let time = 0; time < 30; time++) {
    assert.equal(await cluster.sendCommand('report', false, ['LOCK.ACQUIRE', 'report', 'me', 'ONCE']), 1);
    assert.equal(await cluster.sendCommand('{7}:from', false, several), 2);
  }
  assert.equal(await nodes.moved(), moved);

  // '2' and '{7}:from' are on different nodes.
  await assert.rejects(cluster.sendCommand('2', false, several), { message: /^Too many Cluster redirections/ });
  assert.equal((await nodes.moved()) - moved, 17);

  // What goes to the node of the wait stands behind it; 'a' is on another.
  const waits = cluster.sendCommand('report', false, ['LOCK.ACQUIRE', 'report', 'you', 'BLOCK', '0']);
  const node = await nodes.masterOf('report');
  await node.waiting('report');
  const behind = cluster.get('more of the {report}');
  assert.equal(await cluster.get('a'), null);
  assert.equal(await soFar(behind), 'pending');
  assert.equal(await node.ask.call('LOCK.CANCEL', 'report', 'you'), 1);
  assert.deepEqual(await Promise.all([waits, behind]), [null, null]);

  await assert.rejects(cluster.sendCommand('a', false, ['LOCK.MACQUIRE', '2', 'a', 'b', 'me']), { message: /^CROSSSLOT / });
});
