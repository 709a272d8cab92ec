// A program that must compile with the types of each supported version of the libraries: see client.mk.
import Redis, { Cluster } from 'ioredis'; // its first versions have no other name for Redis
import { createClient, createCluster } from 'redis';

import { locks as ioredisLocks, withLock, type Hold } from 'lock-so/ioredis';
import { locks as nodeRedisLocks, NotAcquired } from 'lock-so/node-redis';

export const all = [
  ioredisLocks(new Redis({ lazyConnect: true })),
  ioredisLocks(new Cluster([], { lazyConnect: true })),
  nodeRedisLocks(createClient(), { maxBlockMs: 1_000 }),
  nodeRedisLocks(createCluster({ rootNodes: [] })),
];

export const wrong = [
  // @ts-expect-error: the client of the other library
  () => ioredisLocks(createClient()),
  // @ts-expect-error: the client of the other library
  () => nodeRedisLocks(new Redis({ lazyConnect: true })),
];

export async function work(redis: Redis): Promise<number | null> {
  const token = await withLock(redis, 'k', (hold: Hold) => hold.token, { kind: 'fair', fenced: true, waitMs: 100 });
  await withLock(redis, ['a', 'b'], ({ signal }) => signal.throwIfAborted());
  try {
    await all[0]!.semaphore('s', 3, { permits: 2 }).acquire();
  } catch (error) {
    return error instanceof NotAcquired && error.code === 'ETIMEDOUT' ? error.waitMs : token;
  }
  return token;
}
