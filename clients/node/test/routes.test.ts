import assert from 'node:assert/strict';
import { test } from 'node:test';

import { NotHeld, Refused, ServerError } from '../src/errors.js';
import { Locks } from '../src/locks.js';
import { Fake, never } from './fake.js';

/** A cluster whose node on port 3 serves the slot. */
function cluster(others: (args: string[]) => unknown, master: (args: string[]) => unknown = () => 1): Fake {
  const fake = new Fake((args, connection) => (connection.node?.port === 3 ? master(args) : others(args)));
  fake.nodes = () => [1, 2].map((port) => ({ host: 'a', port }));
  return fake;
}

function moved(): never {
  throw new ServerError('MOVED 7 b:3');
}

test('MOVED is followed without a pause, and remembered', async () => {
  const fake = cluster(moved);
  const locks = new Locks(fake);
  for (let round = 0; round < 3; round++) {
    await (await locks.lock('k').acquire({ waitMs: 0 })).release();
  }
  assert.equal(fake.of('LOCK.ACQUIRE').length, 4, 'only the first one went to the wrong node');
  assert.deepEqual(fake.connections.map(({ node }) => node?.port), [1, 3], 'one for all short commands');
  await (await locks.lock('k').acquire()).release();
  assert.deepEqual(fake.connections.map(({ node }) => node?.port), [1, 3, 3], 'and one for a wait');
  await locks.close();
});

test('the end of a blocking call of a fair wait says nothing about the node', async () => {
  const fake = cluster(moved, (args) => (args[0] === 'LOCK.FAIR' && fake.of('LOCK.FAIR').length < 5 ? never() : 1));
  const locks = new Locks(fake, { maxBlockMs: 20 });
  await (await locks.fair('k').acquire()).release();
  assert.equal(fake.connections.filter(({ node }) => node?.port !== 3).length, 2, 'one for short commands, one for the wait');
  await locks.close();
});

test('a single client on a node of a cluster: MOVED ends everything', async () => {
  const fake = new Fake((args) => (args[1] === 'k' || args[0] === 'LOCK.RELEASE' ? moved() : 1));
  const locks = new Locks(fake);
  const isMoved = (error: unknown) => error instanceof Refused && error.code === 'MOVED';
  await assert.rejects(locks.lock('k').acquire(), isMoved);
  await assert.rejects(locks.lock('k').tryAcquire(), isMoved);
  const hold = await locks.lock('other').acquire();
  await assert.rejects(hold.release(), isMoved);
  assert.equal(fake.sent.length, 4);
  await locks.close();
});

test('MOVED without a host means the host of the node that replied', async () => {
  const fake = cluster(() => {
    throw new ServerError('MOVED 7 :3');
  });
  const locks = new Locks(fake);
  await (await locks.lock('k').acquire()).release();
  assert.deepEqual(fake.connections.at(-1)?.node, { host: 'a', port: 3 });
  await locks.close();
});

test('ASK is followed once, with ASKING', async () => {
  let requests = 0;
  const fake = cluster((args) => {
    if (args[0] === 'LOCK.ACQUIRE' && ++requests === 1) {
      throw new ServerError('ASK 7 b:3');
    }
    return 1;
  });
  const locks = new Locks(fake);
  await (await locks.lock('k').acquire()).release();
  assert.deepEqual(
    fake.sent.slice(0, 3).map(([word]) => word),
    ['LOCK.ACQUIRE', 'ASKING', 'LOCK.ACQUIRE'],
  );
  assert.notEqual(fake.connections.at(-1)?.node?.port, 3, 'the release goes to the node as before');
  await locks.close();
});

test('two nodes that redirect to each other: with pauses, until the wait times out', async () => {
  const fake = new Fake((args, { node }) => {
    if (args[0] === 'LOCK.CANCEL') {
      return 0;
    }
    throw new ServerError(`MOVED 7 a:${node?.port === 1 ? 2 : 1}`);
  });
  fake.nodes = () => [{ host: 'a', port: 1 }];
  const locks = new Locks(fake);
  await assert.rejects(locks.lock('k').acquire({ waitMs: 100 }), /not acquired within 0.1 s: MOVED 7/);
  assert.ok(fake.of('LOCK.ACQUIRE').length < 5_000);
  await locks.close();
});

test('a master that is down is forgotten, and another node redirects to the new one', async () => {
  let gone = false;
  const fake = cluster(
    () => (gone ? 1 : moved()),
    () => {
      if (gone) {
        fake.connections.filter(({ node }) => node?.port === 3).forEach((connection) => connection.close());
      }
      return 1;
    },
  );
  const locks = new Locks(fake);
  await (await locks.lock('k').acquire()).release();
  gone = true;
  await (await locks.lock('k').acquire({ waitMs: 5_000 })).release();
  assert.notEqual(fake.connections.at(-1)?.node?.port, 3);
  await locks.close();
});

test('an error reply of the right master does not make the locks forget it', async () => {
  const fake = cluster(moved, (args) => {
    if (args[0] === 'LOCK.RELEASE') {
      throw new ServerError('NOTHELD no');
    }
    return 1;
  });
  const locks = new Locks(fake);
  for (let round = 0; round < 5; round++) {
    const hold = await locks.lock('k').acquire();
    await assert.rejects(hold.release(), NotHeld);
  }
  assert.equal(fake.sent.filter(([word]) => word === 'LOCK.ACQUIRE').length, 6);
  await locks.close();
});
