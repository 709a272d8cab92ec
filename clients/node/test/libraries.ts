import { Redis } from 'ioredis';
import { createClient, RESP_TYPES } from 'redis';

import type { Locks } from '../src/index.js';
import { locks as ioredisLocks } from '../src/ioredis.js';
import { locks as nodeRedisLocks } from '../src/node-redis.js';

/** What a user may have set. */
export interface Options {
  password?: string;
  db?: number;
  keyPrefix?: string;
  /** The library's own limit of time for a command, in ms. */
  commandMs?: number;
  /** Have the library return numbers as strings. */
  strings?: boolean;
}

/** Makes the locks of a user's client, which has never been connected: its settings are all that is needed. */
export type Library = (port: number, options?: Options) => Locks;

const host = '127.0.0.1';

/** The libraries by name. */
export const LIBRARIES: Record<string, Library> = {
  ioredis: (port, { password, db, keyPrefix, commandMs, strings } = {}) =>
    ioredisLocks(
      new Redis({
        port,
        host,
        lazyConnect: true,
        ...(password === undefined ? {} : { password }),
        ...(keyPrefix === undefined ? {} : { keyPrefix }),
        ...(commandMs === undefined ? {} : { commandTimeout: commandMs, socketTimeout: commandMs }),
        db: db ?? 0,
        stringNumbers: strings ?? false,
      }),
    ),
  'node-redis': (port, { password, db, keyPrefix, commandMs, strings } = {}) =>
    nodeRedisLocks(
      createClient({
        socket: { host, port, ...(commandMs === undefined ? {} : { socketTimeout: commandMs }) },
        ...(password === undefined ? {} : { password }),
        ...(keyPrefix === undefined ? {} : { keyPrefix }),
        ...(db === undefined ? {} : { database: db }),
        commandOptions: {
          ...(commandMs === undefined ? {} : { timeout: commandMs }),
          ...(strings ? { typeMapping: { [RESP_TYPES.NUMBER]: String } } : {}),
        },
      }),
    ),
};
