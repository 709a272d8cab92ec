import Redis, { type Cluster, type RedisOptions } from 'ioredis'; // its first versions have no other name for Redis

import type { Settings } from './connections.js';
import { repliesBytes, type Address, type Connection, type Connector } from './connector.js';
import { ServerError } from './errors.js';
import type { Locks, WithLock } from './locks.js';
import { perClient } from './per-client.js';
import { nameOf, smallest } from './routes.js';
import { masterFinder } from './sentinel.js';

export * from './index.js';

/** A client of ioredis: a `Redis`, with or without Sentinels, or a `Cluster`. */
export type IoredisClient = Pick<Redis, 'options' | 'status' | 'call'> | Pick<Cluster, 'options' | 'status' | 'call' | 'nodes' | 'isCluster'>;

/** The library must not queue, repeat or reconnect: otherwise a waiter would be in the lock's queue twice. */
const OURS = {
  lazyConnect: true,
  retryStrategy: null,
  reconnectOnError: null,
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
  autoResubscribe: false,
  enableAutoPipelining: false,
  enableReadyCheck: false,
  readOnly: false,
  monitor: false,
  maxRetriesPerRequest: 0,
  commandTimeout: undefined,
  socketTimeout: undefined,
  keyPrefix: '',
  stringNumbers: false,
} as const satisfies RedisOptions;

/** `cause`: the first error event of the client, which may be why a command fails. */
function connectionOf(redis: Redis, cause: () => unknown): Connection {
  const stream = redis.stream;
  return {
    send: (words) => {
      const args = words as [string, ...string[]];
      return (repliesBytes(args) ? redis.callBuffer(...args) : redis.call(...args)).catch((error: unknown) => {
        // ioredis 5 reports that it is ready before it has checked the password.
        throw refusal(error) ?? refusal(cause()) ?? error;
      });
    },
    close() {
      redis.disconnect();
      // disconnect() ends the connection gracefully, which never finishes if the server does not respond.
      stream.destroy();
    },
    onClose(listener) {
      redis.status === 'end' ? listener() : redis.once('end', listener);
    },
    keepAlive(yes) {
      yes ? stream.ref() : stream.unref();
    },
  };
}

/** A connected client of its own; rejects with the original error, not with the library's "Connection is closed". */
async function connect(options: RedisOptions, signal: AbortSignal, timeoutMs: number): Promise<Connection> {
  signal.throwIfAborted();
  const redis = new Redis({ ...options, ...OURS, connectTimeout: Math.min(options.connectTimeout ?? timeoutMs, timeoutMs) });
  let cause: unknown;
  redis.on('error', (error: unknown) => (cause ??= error));
  const abort = () => {
    redis.disconnect();
    redis.stream?.destroy();
  };
  signal.addEventListener('abort', abort);
  try {
    await redis.connect();
    await hasReplied(redis);
    return connectionOf(redis, () => cause);
  } catch (error) {
    abort();
    signal.throwIfAborted();
    throw refusal(cause) ?? cause ?? error;
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

/** ioredis 5 reports a connection before the server has replied on it: the server may be stopped, or full (ERR). */
async function hasReplied(redis: Redis): Promise<void> {
  try {
    await redis.ping();
  } catch (error) {
    const reply = refusal(error);
    if (reply === undefined || reply.code === 'ERR') {
      throw reply ?? error;
    }
  }
}

/** A ServerError for an error reply of the server, such as that to a wrong password; undefined for other errors. */
function refusal(error: unknown): ServerError | undefined {
  return error instanceof Error && error.name === 'ReplyError' ? new ServerError(error.message, { cause: error }) : undefined;
}

/** The options that `new Redis` derives from an address in any notation. */
function optionsOf(node: unknown): RedisOptions {
  return new Redis({ ...new Redis(node as string, { lazyConnect: true }).options, lazyConnect: true }).options;
}

/** The cluster is not kept from being collected: these locks may be known as long as it is. */
function clusterConnector(cluster: Pick<Cluster, 'options' | 'nodes'>): Connector {
  const client = new WeakRef(cluster);
  const { redisOptions, natMap, keyPrefix } = cluster.options;
  // The startup nodes, which have no public name, are needed only for a client that is not connected.
  const startup = (cluster as unknown as { startupNodes?: unknown[] }).startupNodes ?? [];
  const first = startup.map(optionsOf);
  return {
    name: smallest(first.map(addressTextOf)),
    prefix: keyPrefix ?? '',
    nodes: () => [...(client.deref()?.nodes() ?? []).map((node) => node.options), ...first].map(addressIn),
    addressOf: (node) => (node === null ? first.map(addressTextOf).join(', ') : nameOf(node)),
    map: (address) => mapped(natMap, address),
    connect: (node, ...limits) => connect({ ...credentials(first), ...redisOptions, ...(node as Address) }, ...limits),
  };
}

function mapped(map: RedisOptions['natMap'], { host, port }: Address): Address {
  return (typeof map === 'function' ? map(`${host}:${port}`) : map?.[`${host}:${port}`]) ?? { host, port };
}

/** The Sentinels and the master are connected to with the settings that the library uses for them. */
function sentinelConnector(options: RedisOptions): Connector {
  const { name = '', sentinels = [], sentinelUsername, sentinelPassword, sentinelTLS, enableTLSForSentinelMode, tls } = options;
  const addresses = sentinels.map(({ host = '127.0.0.1', port = 26_379, ...more }) => ({ ...more, host, port }));
  const single = { ...options, sentinels: undefined, path: undefined, name: undefined };
  const credentials = { username: sentinelUsername, password: sentinelPassword };
  const ofSentinel = { ...single, ...credentials, tls: sentinelTLS, db: 0, connectionName: undefined };
  const master = masterFinder(name, addresses, (sentinel, ...limits) => connect({ ...ofSentinel, ...sentinel }, ...limits));
  const ofMaster = { ...single, tls: enableTLSForSentinelMode ? tls : undefined };
  return {
    name,
    prefix: options.keyPrefix ?? '',
    nodes: null,
    hasSentinels: true,
    addressOf: () => addressTextOf(options),
    connect: async (_node, ...limits) => connect({ ...ofMaster, ...mapped(options.natMap, await master(...limits)) }, ...limits),
  };
}

function addressIn({ host = 'localhost', port = 6379 }: RedisOptions): Address {
  return { host, port };
}

function addressTextOf(options: RedisOptions): string {
  return options.sentinels ? `the master ${options.name}` : options.path || nameOf(addressIn(options));
}

/** The credentials in the startup nodes' URLs are used for all nodes, as the library does. */
function credentials(nodes: RedisOptions[]): RedisOptions {
  const { username, password } = nodes.find((node) => node.password != null) ?? {};
  return password == null ? {} : { username: username ?? undefined, password };
}

function connectorOf(client: IoredisClient): Connector {
  if (typeof client?.call !== 'function' || typeof client.status !== 'string' || typeof client.options !== 'object') {
    throw new TypeError('not a client of ioredis: for one of node-redis, import lock-so/node-redis');
  }
  if ('isCluster' in client && client.isCluster) {
    return clusterConnector(client);
  }
  const options = client.options as RedisOptions;
  if (options.sentinels) {
    return sentinelConnector(options);
  }
  return {
    name: addressTextOf(options),
    prefix: options.keyPrefix ?? '',
    nodes: null,
    addressOf: () => addressTextOf(options),
    connect: (_node, ...limits) => connect(options, ...limits),
  };
}

/** The locks of this client; always the same object until it is closed. The client's own connections are never used. */
export const locks: (client: IoredisClient, settings?: Settings) => Locks = perClient(connectorOf);

/** Runs `body` while the lock is held: see Locks.withLock. */
export function withLock<T>(client: IoredisClient, ...args: WithLock<T>): Promise<T> {
  return locks(client).withLock(...args);
}
