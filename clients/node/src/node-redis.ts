import { createClient, ErrorReply, RESP_TYPES, type RedisClientOptions, type RedisClusterOptions, type RedisSentinelOptions } from 'redis';

import type { Settings } from './connections.js';
import { repliesBytes, type Address, type Connection, type Connector } from './connector.js';
import { ServerError } from './errors.js';
import type { Locks, WithLock } from './locks.js';
import { perClient } from './per-client.js';
import { nameOf, smallest } from './routes.js';
import { masterFinder } from './sentinel.js';
import { unless } from './time.js';

export * from './index.js';

/**
 * A client of node-redis, from createClient, createCluster or createSentinel. For a pool, a client with the same
 * settings.
 */
export interface NodeRedisClient {
  readonly isOpen: boolean;
  duplicate(): unknown;
}

type Limits = [signal: AbortSignal, timeoutMs: number];

type ClientSettings = RedisClientOptions | RedisClusterOptions | RedisSentinelOptions;

/** The library must not queue, time out or reconnect: otherwise a waiter would be in the lock's queue twice. */
const OURS = {
  commandOptions: { timeout: undefined },
  commandsQueueMaxLength: undefined,
  disableOfflineQueue: true,
  pingInterval: undefined,
  readonly: false,
  clientSideCache: undefined,
  maintNotifications: 'disabled',
  keyPrefix: undefined,
} as const;

/**
 * The settings with which a client was created. A cluster and a Sentinel client do not expose them, so the argument is
 * intercepted from which their duplicate() creates a client.
 */
function settingsOf(client: NodeRedisClient & { options?: ClientSettings }): ClientSettings {
  let settings: ClientSettings | undefined;
  if (typeof client?.isOpen === 'boolean' && typeof client.duplicate === 'function') {
    settings = client.options;
    if (settings === undefined) {
      const prototype = Object.getPrototypeOf(client) as object;
      const Catcher = function (options: ClientSettings) {
        settings = options;
      };
      // In node-redis 4 a Proxy has no access to the private fields, so the client itself gets another prototype.
      if (!Reflect.setPrototypeOf(client, Object.create(prototype, { constructor: { value: Catcher } }) as object)) {
        throw new TypeError('a client of node-redis for a cluster or Sentinel must not be frozen');
      }
      try {
        client.duplicate();
      } finally {
        Object.setPrototypeOf(client, prototype);
      }
    }
  }
  if (settings === undefined) {
    if (typeof client?.isOpen === 'boolean') {
      throw new TypeError('a Sentinel client needs node-redis 6: before, its settings cannot be read');
    }
    throw new TypeError('not a client of node-redis: for one of ioredis, import lock-so/ioredis');
  }
  return settings;
}

/** The option of a command whose reply consists of Buffers; node-redis 4 has another one, and no RESP_TYPES. */
const BYTES = {
  returnBuffers: true,
  ...(RESP_TYPES && { typeMapping: { [RESP_TYPES.BLOB_STRING]: Buffer } }),
} as const;

function connectionOf(client: ReturnType<typeof newClient>): Connection {
  return {
    send: (args) =>
      client.sendCommand(args, repliesBytes(args) ? BYTES : undefined).catch((error: unknown) => {
        throw refusal(error) ?? error;
      }),
    close: () => destroy(client),
    onClose(listener) {
      client.isOpen ? client.on('end', listener).on('error', listener) : listener();
    },
    keepAlive(yes) {
      yes ? client.ref() : client.unref();
    },
  };
}

function refusal(error: unknown): ServerError | undefined {
  return error instanceof ErrorReply ? new ServerError(error.message, { cause: error }) : undefined;
}

function newClient(options: RedisClientOptions, address: Partial<Address>, timeoutMs: number) {
  const socket = {
    ...options.socket,
    ...address,
    reconnectStrategy: false,
    socketTimeout: undefined,
    connectTimeout: Math.min(options.socket?.connectTimeout ?? timeoutMs, timeoutMs),
  };
  const client = createClient({ ...options, ...OURS, socket } as RedisClientOptions);
  // Commands and connect() reject with the errors; without a listener the error events would end the process.
  return client.on('error', () => {});
}

/** A connected client of its own. */
async function connect(options: RedisClientOptions, address: Partial<Address>, signal: AbortSignal, timeoutMs: number) {
  signal.throwIfAborted();
  const client = newClient(options, address, timeoutMs);
  // A socket that is still connecting cannot be closed: it is closed when it is connected, or times out by itself. So
  // it must not keep the process alive; while the connection is awaited, `alive` does.
  client.unref();
  const alive = setInterval(() => {}, 60_000);
  let up = false;
  client.once('connect', () => {
    up = true;
    if (signal.aborted) {
      // Not in the listener: node-redis 4 then sends its first commands, and ignores the promises of their replies.
      setImmediate(() => destroy(client));
    }
  });
  try {
    await unless(signal, client.connect());
    return client;
  } catch (error) {
    if (up || !signal.aborted) {
      destroy(client);
    }
    throw refusal(error) ?? error;
  } finally {
    clearInterval(alive);
  }
}

/** Closes it. node-redis 4 has another name for this, which returns a promise; all of them fail if it is closed already. */
function destroy(client: ReturnType<typeof newClient> & { disconnect?(): unknown }): void {
  const close = async () => void (await (client.destroy ?? client.disconnect).call(client));
  close().catch(() => {});
}

function mapped(map: RedisClusterOptions['nodeAddressMap'], { host, port }: Address): Address {
  return (typeof map === 'function' ? map(`${host}:${port}`) : map?.[`${host}:${port}`]) ?? { host, port };
}

function clusterConnector(options: RedisClusterOptions, client: NodeRedisClient): Connector {
  const roots = options.rootNodes.map((root) => {
    const { socket } = root.url === undefined ? root : { ...createClient({ url: root.url }).options };
    const { host = 'localhost', port = 6379 } = (socket ?? {}) as Partial<Address>;
    return { host, port };
  });
  // The client is not kept from being collected: these locks may be known as long as it is.
  const weak = new WeakRef(client as { masters?: Address[] });
  const known = () => (weak.deref()?.masters ?? []).map((node) => mapped(options.nodeAddressMap, node));
  return {
    name: smallest(roots.map(nameOf)),
    prefix: String(options.keyPrefix ?? ''),
    nodes: () => [...known(), ...roots],
    addressOf: (node) => (node === null ? roots.map(nameOf).join(', ') : nameOf(node)),
    map: (address) => mapped(options.nodeAddressMap, address),
    connect: async (node, ...limits) =>
      connectionOf(await connect((options.defaults ?? {}) as RedisClientOptions, node as Address, ...limits)),
  };
}

function sentinelConnector(options: RedisSentinelOptions): Connector {
  const open = async (settings: object | undefined, address: Address, ...limits: Limits) =>
    connectionOf(await connect((settings ?? {}) as RedisClientOptions, address, ...limits));
  const sentinels = options.sentinelRootNodes as Address[];
  const master = masterFinder(options.name, sentinels, (...args) => open(options.sentinelClientOptions, ...args));
  return {
    name: options.name,
    prefix: String(options.keyPrefix ?? ''),
    nodes: null,
    hasSentinels: true,
    addressOf: () => `the master ${options.name}`,
    connect: async (_node, ...limits) =>
      open(options.nodeClientOptions, mapped(options.nodeAddressMap, await master(...limits)), ...limits),
  };
}

function connectorOf(client: NodeRedisClient): Connector {
  const options = settingsOf(client);
  if ('rootNodes' in options) {
    return clusterConnector(options, client);
  }
  if ('sentinelRootNodes' in options) {
    return sentinelConnector(options);
  }
  const single = options as RedisClientOptions & { keyPrefix?: string };
  const { host = 'localhost', port = 6379, path } = (single.socket ?? {}) as Partial<Address> & { path?: string };
  const name = path ?? nameOf({ host, port });
  return {
    name,
    prefix: String(single.keyPrefix ?? ''),
    nodes: null,
    addressOf: () => name,
    connect: async (_node, ...limits) => connectionOf(await connect(single, {}, ...limits)),
  };
}

/** The locks of this client; always the same object until it is closed. The client's own connections are never used. */
export const locks: (client: NodeRedisClient, settings?: Settings) => Locks = perClient(connectorOf);

/** Runs `body` while the lock is held: see Locks.withLock. */
export function withLock<T>(client: NodeRedisClient, ...args: WithLock<T>): Promise<T> {
  return locks(client).withLock(...args);
}
