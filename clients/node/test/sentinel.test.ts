import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { after, before, test } from 'node:test';

import Redis from 'ioredis';
import { createSentinel } from 'redis';

import { RedLock, type Locks } from '../src/index.js';
import { locks as ioredisLocks } from '../src/ioredis.js';
import { locks as nodeRedisLocks } from '../src/node-redis.js';
import { TestServer } from './server.js';

const host = '127.0.0.1';

/** How much longer everything may take on a slow machine. */
const SLOWNESS = Number(process.env.SLOWNESS ?? 3);

/** A Sentinel that knows one master, or accepts connections and is silent. */
class FakeSentinel {
  readonly port: number;
  silent = false;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(server: Server, master: number) {
    this.#server = server;
    this.port = (server.address() as AddressInfo).port;
    const named = `*2\r\n+${host}\r\n+${master}\r\n`;
    server.on('connection', (socket) => {
      this.#sockets.add(socket);
      socket.on('close', () => this.#sockets.delete(socket)).on('error', () => {});
      socket.on('data', (data) => {
        // Requests arrive whole.
        for (const [request] of data.toString().matchAll(/\*\d+\r\n(?:\$\d+\r\n.*\r\n)+/g)) {
          const reply = /hello/i.test(request) ? '%1\r\n+proto\r\n:3\r\n' : /sentinel/i.test(request) ? named : '+OK\r\n';
          this.silent || socket.write(reply);
        }
      });
    });
  }

  static async start(master: number): Promise<FakeSentinel> {
    const server = createServer().listen(0, host);
    await once(server, 'listening');
    return new FakeSentinel(server, master);
  }

  /** How many connections it has. */
  get connections(): number {
    return this.#sockets.size;
  }

  stop(): void {
    this.#sockets.forEach((socket) => socket.destroy());
    this.#server.close();
  }
}

type Library = (sentinels: { host: string; port: number }[]) => Locks;

const LIBRARIES: Record<string, Library> = { ioredis: (sentinels) => ioredisLocks(new Redis({ sentinels, name: 'main', lazyConnect: true })) };
// Before node-redis 5 there is no createSentinel, and before node-redis 6 its settings cannot be read.
const client = createSentinel?.({ name: 'main', sentinelRootNodes: [{ host, port: 26_379 }] });
if (client !== undefined && 'duplicate' in client) {
  LIBRARIES['node-redis'] = (sentinelRootNodes) => nodeRedisLocks(createSentinel({ name: 'main', sentinelRootNodes }));
} else if (client !== undefined) {
  test('node-redis 5: a Sentinel client is refused, and the text says why', () => {
    assert.throws(() => nodeRedisLocks(client), { name: 'TypeError', message: /needs node-redis 6/ });
  });
}

let server: TestServer;
before(async () => void (server = await TestServer.start()));
after(() => server.stop());

async function killAll(): Promise<void> {
  await server.ask.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
}

for (const [name, library] of Object.entries(LIBRARIES)) {
  test(`${name}: silent Sentinels delay a wait, and leave no connection`, { timeout: 60_000 }, async () => {
    const sentinels = await Promise.all([0, 1, 2].map(() => FakeSentinel.start(server.port)));
    for (const third of sentinels) {
      sentinels.forEach((each) => (each.silent = each !== third));
      const locks = library(sentinels.map(({ port }) => ({ host, port })));
      const start = performance.now();
      await locks.withLock('k', () => {}, { waitMs: 10_000 * SLOWNESS });
      assert.ok(performance.now() - start < 4_500 * SLOWNESS, `took ${performance.now() - start} ms`);
      await killAll();
      const again = performance.now();
      await locks.withLock('k', () => {}, { waitMs: 10_000 * SLOWNESS });
      assert.ok(performance.now() - again < 900 * SLOWNESS, `took ${performance.now() - again} ms: those that are silent come last`);
      while (sentinels.some(({ connections }) => connections > 0)) {
        await new Promise(setImmediate);
      }
      await locks.close();
    }
    sentinels.forEach((each) => each.stop());
  });

  test(`${name}: a RedLock refuses a master of Sentinels`, () => {
    const all = [1, 2, 3].map((port) => library([{ host, port }]));
    assert.throws(() => new RedLock(all), { name: 'TypeError', message: 'main is a master of Sentinels, and no independent server' });
  });

  test(`${name}: a Sentinel that still names the old master is not trusted for ever`, { timeout: 60_000 }, async () => {
    const old = await TestServer.start();
    await old.ask.call('REPLICAOF', host, server.port);
    const sentinels = await Promise.all([old.port, server.port, server.port].map((port) => FakeSentinel.start(port)));
    const locks = library(sentinels.map(({ port }) => ({ host, port })));
    await locks.withLock('k', () => {}, { waitMs: 10_000 * SLOWNESS });
    await locks.close();
    sentinels.forEach((each) => each.stop());
    await old.stop();
  });
}
