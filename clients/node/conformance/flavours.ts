import { Cluster, Redis } from 'ioredis';
import { createClient, createCluster, createSentinel } from 'redis';

import type { Locks, Settings } from '../src/index.js';
import { locks as ioredisLocks } from '../src/ioredis.js';
import { locks as nodeRedisLocks } from '../src/node-redis.js';

const HOST = '127.0.0.1';

/** Where a client connects to. */
export interface To {
  kind: 'single' | 'cluster' | 'sentinel';
  port: number;
  ports: number[];
  master: string;
}

/** A user's client, of either library, and the locks on it. */
export interface User {
  locks: Locks;
  /** Sends a command in the library's ordinary way. In a cluster, `key` selects the node. */
  command(key: string, ...args: string[]): Promise<unknown>;
  close(): Promise<void>;
}

/** Creates a connected client of a library, as a user would. */
export type Flavour = (to: To, settings: Settings) => Promise<User>;

async function ioredis(to: To, settings: Settings): Promise<User> {
  const nodes = (to.ports ?? []).map((port) => ({ host: HOST, port }));
  const client =
    to.kind === 'cluster'
      ? new Cluster(nodes, { lazyConnect: true })
      : new Redis({
          lazyConnect: true,
          ...(to.kind === 'single' ? { host: HOST, port: to.port } : { sentinels: nodes, name: to.master }),
        });
  client.on('error', (error: unknown) => console.error(`user: ${String(error)}`));
  await client.connect();
  return {
    locks: ioredisLocks(client, settings),
    command: (_key, name, ...args) => client.call(name as string, ...args),
    close: async () => client.disconnect(),
  };
}

/** What all kinds of node-redis clients have in common. */
interface NodeRedis {
  on(event: 'error', listener: (error: unknown) => void): unknown;
  connect(): Promise<unknown>;
  duplicate(): unknown;
  destroy(): unknown;
}

/** Connects a client of node-redis. Each kind of client has a different way to send commands. */
async function connected<Client extends NodeRedis>(
  client: Client,
  settings: Settings,
  command: (client: Client, key: string, args: string[]) => Promise<unknown>,
): Promise<User> {
  client.on('error', (error) => console.error(`user: ${String(error)}`));
  await client.connect();
  return {
    locks: nodeRedisLocks(client, settings),
    command: (key, ...args) => command(client, key, args),
    close: async () => void (await client.destroy()),
  };
}

function nodeRedis(to: To, settings: Settings): Promise<User> {
  const nodes = (to.ports ?? []).map((port) => ({ host: HOST, port }));
  switch (to.kind) {
    case 'single':
      return connected(createClient({ socket: { host: HOST, port: to.port } }), settings, (client, _key, args) =>
        client.sendCommand(args),
      );
    case 'cluster':
      return connected(createCluster({ rootNodes: nodes.map((socket) => ({ socket })) }), settings, (client, key, args) =>
        client.sendCommand(key, false, args),
      );
    case 'sentinel':
      return connected(createSentinel({ name: to.master, sentinelRootNodes: nodes }), settings, (client, _key, args) =>
        client.sendCommand(false, args),
      );
  }
}

/** The flavours by name. */
export const FLAVOURS: Record<string, Flavour> = { ioredis, 'node-redis': nodeRedis };
