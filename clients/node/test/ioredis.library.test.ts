// What docs/clients/node.md says of ioredis, without this package.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Cluster, Command, Redis, type RedisOptions } from 'ioredis';

import { TestCluster } from './cluster.js';
import { Place, soFar } from './place.js';

const place = new Place();

function opened<Client extends Redis | Cluster>(client: Client): Client {
  return place.closes(client, () => client.disconnect());
}

/** A user's client, with the library's defaults but for these. */
function client(options: RedisOptions = {}): Redis {
  return opened(new Redis({ host: '127.0.0.1', port: place.server.port, ...options }).on('error', () => {}));
}

test('null and numbers are replies, errors are ReplyError', async () => {
  const redis = client();
  assert.equal(await redis.call('LOCK.ACQUIRE', 'k', 'me', 'PX', 30_000), 1);
  assert.equal(await redis.call('LOCK.ACQUIRE', 'k', 'you', 'BLOCK', 10), null);
  const token = await redis.call('LOCK.ACQUIRE', 'k', 'me', 'FENCED', 'ONCE');
  assert.ok(Number.isSafeInteger(token));
  await assert.rejects(redis.call('LOCK.RELEASE', 'k', 'you') as Promise<unknown>, { name: 'ReplyError', message: /^NOTHELD / });
  await place.server.ask.flushall();
  assert.equal(await redis.call('LOCK.INFO', 'k', 'COUNT', 0), null);
});

test('LOCK.INFO is a flat array, and an object with replyMapping resp3', async () => {
  await place.hold();
  const [flat, two, three] = [client(), client({ protocol: 2 }), client({ replyMapping: 'resp3' })];
  for (const redis of [flat, two]) {
    const info = (await redis.call('LOCK.INFO', 'k')) as unknown[];
    assert.deepEqual(info.slice(0, 2), ['mode', 'exclusive']);
    assert.deepEqual((info[3] as unknown[][])[0]!.slice(0, 2), ['owner', 'holder']);
  }
  const info = (await three.call('LOCK.INFO', 'k')) as Record<string, unknown>;
  assert.equal(info.mode, 'exclusive');
  assert.equal((info.holders as Record<string, unknown>[])[0]!.owner, 'holder');
  assert.equal(info.waiting, 0);
});

test('keyPrefix is not put before the keys of LOCK commands', async () => {
  const redis = client({ keyPrefix: 'app:' });
  await redis.call('LOCK.ACQUIRE', 'k', 'me');
  assert.equal(await place.server.ask.exists('k'), 1);
});

test('a wait stalls all that is sent behind it, and nothing on a duplicate', async () => {
  await place.hold();
  const redis = client();
  const other = opened(redis.duplicate());
  const order: string[] = [];
  const waits = redis.call('LOCK.ACQUIRE', 'k', 'me', 'BLOCK', 0).then(() => order.push('lock'));
  await place.server.waiting('k');
  const ping = redis.ping().then(() => order.push('ping'));
  assert.equal(await other.ping(), 'PONG');
  assert.deepEqual(order, []);
  await other.call('LOCK.RELEASE', 'k', 'holder');
  await Promise.all([waits, ping]);
  assert.deepEqual(order, ['lock', 'ping']);
});

test('no limit of time ends a wait by default, nor does blockingTimeout', async () => {
  const redis = client({ blockingTimeout: 20 });
  assert.equal(redis.options.commandTimeout, undefined);
  assert.equal(redis.options.socketTimeout, undefined);
  await place.hold();
  const waits = redis.call('LOCK.ACQUIRE', 'k', 'me', 'BLOCK', 0);
  await place.server.until('k', (info) => (info?.waiters[0]?.waited ?? 0) > 200);
  assert.equal(await soFar(waits), 'pending');
  await place.release();
  assert.equal(await waits, 1);
});

test('commandTimeout leaves a wait behind, which is granted to nobody', async () => {
  await place.hold();
  const redis = client({ commandTimeout: 500 });
  await new Promise((resolve) => redis.once('ready', resolve));
  await assert.rejects(redis.call('LOCK.ACQUIRE', 'k', 'me', 'PX', 20_000, 'BLOCK', 0) as Promise<unknown>, {
    message: 'Command timed out',
  });
  await place.server.waiting('k');
  await place.release();
  const [ghost] = (await place.server.info('k'))!.holders;
  assert.equal(ghost?.owner, 'me');
  assert.ok(ghost.pttl > 15_000, `${ghost.pttl} ms`);
  assert.equal(redis.status, 'ready');
  assert.equal(await place.server.ask.call('LOCK.CANCEL', 'k', 'me', 'RELEASE'), 2);
  assert.equal(await place.server.info('k'), null);
});

test('a command whose reply is lost is sent again: a second hold, and with ONCE none', async () => {
  assert.equal(client().options.maxRetriesPerRequest, 20);
  for (const [more, holds] of [[[], 2], [['ONCE'], 1]] as const) {
    const port = await place.cut('LOCK.ACQUIRE');
    const redis = client({ port });
    assert.equal(await redis.call('LOCK.ACQUIRE', 'k', 'me', ...more), holds);
    assert.equal(await redis.call('LOCK.RELEASE', 'k', 'me'), holds - 1);
    assert.equal((await place.server.info('k'))?.holders.length, holds === 2 ? 1 : undefined);
    await place.server.ask.flushall();
  }
});

test('maxRetriesPerRequest 0 or no retryStrategy: an error instead, and the hold is there', async () => {
  const settings = [
    [{ maxRetriesPerRequest: 0 }, { name: 'MaxRetriesPerRequestError' }],
    [{ retryStrategy: null }, { message: 'Connection is closed.' }],
  ] as [RedisOptions, object][];
  for (const [options, error] of settings) {
    const port = await place.cut('LOCK.ACQUIRE');
    const redis = client({ port, ...options });
    await assert.rejects(redis.call('LOCK.ACQUIRE', 'k', 'me', 'PX', 20_000) as Promise<unknown>, error);
    assert.equal(await place.server.ask.call('LOCK.RENEW', 'k', 'me', 'PX', 20_000), 1);
    await place.server.ask.flushall();
  }
});

test('with autoResendUnfulfilledCommands false alone the promise is never settled', async () => {
  const port = await place.cut('LOCK.ACQUIRE');
  const redis = client({ port, autoResendUnfulfilledCommands: false });
  const lost = redis.call('LOCK.ACQUIRE', 'k', 'me', 'PX', 20_000);
  await new Promise((resolve) => redis.once('close', resolve));
  // Replies come in the order of the commands: what comes behind this one cannot be the lost one's.
  assert.equal(await redis.ping(), 'PONG');
  assert.equal(await soFar(lost), 'pending');
});

test('socketTimeout sends the wait again, behind all others', async () => {
  await place.hold();
  const [redis, other] = [client({ socketTimeout: 300 }), client()];
  const first = redis.call('LOCK.ACQUIRE', 'k', 'first', 'BLOCK', 0, 'ONCE');
  await place.server.waiting('k');
  const second = other.call('LOCK.ACQUIRE', 'k', 'second', 'BLOCK', 0, 'ONCE');
  await place.server.until('k', (info) => info?.waiters.map(({ owner }) => owner).join() === 'second,first');
  await place.release();
  assert.equal(await second, 1);
  await other.call('LOCK.RELEASE', 'k', 'second');
  assert.equal(await first, 1);
});

test('disconnect() ends a wait; LOCK.CANCEL of another client ends it with null', async () => {
  await place.hold();
  const [redis, other] = [client(), client()];
  const closed = redis.call('LOCK.ACQUIRE', 'k', 'me', 'BLOCK', 0);
  const rejected = assert.rejects(closed as Promise<unknown>, { message: 'Connection is closed.' });
  await place.server.waiting('k');
  redis.disconnect();
  await rejected;
  await place.server.until('k', (info) => info?.waiting === 0);
  const cancelled = other.call('LOCK.ACQUIRE', 'k', 'me', 'BLOCK', 0);
  await place.server.waiting('k');
  assert.equal(await place.server.ask.call('LOCK.CANCEL', 'k', 'me', 'RELEASE'), 1);
  assert.equal(await cancelled, null);
});

test('a promise that loses a race goes on waiting, and gets the lock', async () => {
  await place.hold();
  const redis = client();
  const waits = redis.call('LOCK.ACQUIRE', 'k', 'me', 'PX', 20_000, 'BLOCK', 0);
  await Promise.race([waits, place.server.waiting('k')]);
  await place.release();
  await place.server.until('k', (info) => info?.holders[0]?.owner === 'me');
  assert.equal(await place.server.ask.call('LOCK.CANCEL', 'k', 'me'), 0);
  assert.equal((await place.server.info('k'))?.holders[0]?.owner, 'me');
  assert.equal(await place.server.ask.call('LOCK.CANCEL', 'k', 'me', 'RELEASE'), 2);
  assert.equal(await waits, 1);
});

test('a SESSION ends with a connection that the library replaces without a word', async () => {
  const redis = client();
  const told: string[] = [];
  redis.on('close', () => told.push('close')).on('error', () => told.push('error'));
  await redis.call('LOCK.ACQUIRE', 'k', 'me', 'SESSION');
  await place.server.ask.call('CLIENT', 'KILL', 'ID', (await redis.client('ID')) as number);
  await place.server.until('k', (info) => info === null);
  assert.equal(await redis.ping(), 'PONG');
  assert.deepEqual(told, ['close']);
  await assert.rejects(redis.call('LOCK.RELEASE', 'k', 'me') as Promise<unknown>, { message: /^NOTHELD / });
});

test('a Cluster sends LOCK commands to any node, unless it is told the key', async () => {
  const nodes = place.closes(await TestCluster.start(), (it) => it.stop());
  const cluster = opened(new Cluster(nodes.ports.map((port) => ({ host: '127.0.0.1', port }))));
  await new Promise((resolve) => cluster.once('ready', resolve));

  for (const command of [['LOCK.ACQUIRE', 'report'], ['LOCK.MACQUIRE', '2', '{7}:from', '{7}:to']] as [string, ...string[]][]) {
    const moved = await nodes.moved();
    for (let time = 0; time < 90; time++) {
      assert.ok(Number(await cluster.call(...command, 'me', 'ONCE')) > 0);
    }
    const wrong = (await nodes.moved()) - moved;
    assert.ok(wrong > 35 && wrong < 85, `${wrong} of 90 were MOVED`);

    const routed = await nodes.moved();
    for (let time = 0; time < 90; time++) {
      const told = new Command(command[0], [...command.slice(1), 'me', 'ONCE'], { replyEncoding: 'utf8' });
      told.getKeys = () => [command.at(-1)!];
      assert.ok(Number(await cluster.sendCommand(told)) > 0);
    }
    assert.equal(await nodes.moved(), routed);
  }

  // What goes to the node of the wait stands behind it; 'a' is on another.
  const node = await nodes.masterOf('report');
  const waits = cluster.call('LOCK.ACQUIRE', 'report', 'you', 'BLOCK', 0);
  await node.waiting('report');
  const behind = cluster.get('more of the {report}');
  assert.equal(await cluster.get('a'), null);
  assert.equal(await soFar(behind), 'pending');
  assert.equal(await node.ask.call('LOCK.CANCEL', 'report', 'you'), 1);
  assert.deepEqual(await Promise.all([waits, behind]), [null, null]);
  await assert.rejects(cluster.call('LOCK.MACQUIRE', 2, 'a', 'b', 'me') as Promise<unknown>, { message: /^CROSSSLOT / });
});
