import Redis, { Cluster } from 'ioredis'; // its first versions have no other name for Redis
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
  /** The locks of a new client with the same settings, which is not connected. */
  fresh(): Locks;
  /** Sends a command in the library's ordinary way. In a cluster, `key` selects the node. */
  command(key: string, ...args: string[]): Promise<unknown>;
  close(): Promise<void>;
}

/** Creates a connected client of a library, as a user would. */
export type Flavour = (to: To, settings: UserSettings) => Promise<User>;

/** `wrong`: the locks are given the other library's client. */
export interface UserSettings extends Settings {
  wrong?: boolean;
}

async function ioredis(to: To, { wrong, ...settings }: UserSettings): Promise<User> {
  const nodes = (to.ports ?? []).map((port) => ({ host: HOST, port }));
  const create = () =>
    to.kind === 'cluster'
      ? new Cluster(nodes, { lazyConnect: true })
      : new Redis({
          lazyConnect: true,
          ...(to.kind === 'single' ? { host: HOST, port: to.port } : { sentinels: nodes, name: to.master }),
        });
  const client = create();
  client.on('error', (error: unknown) => console.error(`user: ${String(error)}`));
  const locks = ioredisLocks(wrong ? (createClient() as never) : client, settings);
  const connected = await connecting(to, client.connect());
  return {
    locks,
    fresh: () => ioredisLocks(create()),
    command: async (_key, name, ...args) => {
      await connected();
      return client.call(name as string, ...args);
    },
    close: async () => client.disconnect(),
  };
}

/** A single server may be away while the client is created. The result waits until the client is connected. */
async function connecting(to: To, attempt: Promise<unknown>): Promise<() => Promise<unknown>> {
  attempt.catch(() => {});
  if (to.kind !== 'single') {
    await attempt;
  }
  return () => attempt;
}

/** What all kinds of node-redis clients have in common. */
interface NodeRedis {
  readonly isOpen: boolean;
  on(event: 'error', listener: (error: unknown) => void): unknown;
  connect(): Promise<unknown>;
  duplicate(): unknown;
  destroy?(): unknown;
  /** Instead of destroy() in node-redis 4. */
  disconnect?(): unknown;
}

/** Connects a client of node-redis. Each kind of client has a different way to send commands. */
async function connected<Client extends NodeRedis>(
  client: Client,
  to: To,
  { wrong, ...settings }: UserSettings,
  command: (client: Client, key: string, args: string[]) => Promise<unknown>,
): Promise<User> {
  client.on('error', (error) => console.error(`user: ${String(error)}`));
  const locks = nodeRedisLocks(wrong ? (new Redis({ lazyConnect: true }) as never) : client, settings);
  const connected = await connecting(to, client.connect());
  return {
    locks,
    fresh: () => nodeRedisLocks(client.duplicate() as NodeRedis),
    command: async (key, ...args) => {
      await connected();
      return command(client, key, args);
    },
    close: async () => void (await (client.destroy ? client.destroy() : client.disconnect?.())),
  };
}

function nodeRedis(to: To, settings: UserSettings): Promise<User> {
  const nodes = (to.ports ?? []).map((port) => ({ host: HOST, port }));
  switch (to.kind) {
    case 'single':
      return connected(createClient({ socket: { host: HOST, port: to.port } }), to, settings, (client, _key, args) =>
        client.sendCommand(args),
      );
    case 'cluster':
      return connected(createCluster({ rootNodes: nodes.map((socket) => ({ socket })) }), to, settings, (client, key, args) =>
        client.sendCommand(key, false, args),
      );
    case 'sentinel':
      return connected(createSentinel({ name: to.master, sentinelRootNodes: nodes }), to, settings, (client, _key, args) =>
        client.sendCommand(false, args),
      );
  }
}

/** The flavours by name. */
export const FLAVOURS: Record<string, Flavour> = { ioredis, 'node-redis': nodeRedis };
