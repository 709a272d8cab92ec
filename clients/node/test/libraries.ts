import Redis from 'ioredis';
import { createClient, RESP_TYPES } from 'redis';

import type { Locks, Settings } from '../src/index.js';
import { locks as ioredisLocks } from '../src/ioredis.js';
import { locks as nodeRedisLocks } from '../src/node-redis.js';

/** Settings that a user may have. */
export interface Options {
  password?: string;
  db?: number;
  keyPrefix?: string;
  /** The library's own time-out for a command, in ms. */
  commandMs?: number;
  /** Whether the library returns numbers as strings. */
  strings?: boolean;
}

/** Creates the locks of a user's client, which is never connected: only its settings are needed. */
export type Library = (port: number, options?: Options, settings?: Settings) => Locks;

const host = '127.0.0.1';

/** The libraries by name. */
export const LIBRARIES: Record<string, Library> = {
  ioredis: (port, { password, db, keyPrefix, commandMs, strings } = {}, settings) =>
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
      settings,
    ),
  'node-redis': (port, { password, db, keyPrefix, commandMs, strings } = {}, settings) =>
    nodeRedisLocks(
      createClient({
        socket: { host, port, ...(commandMs === undefined ? {} : { socketTimeout: commandMs }) },
        ...(password === undefined ? {} : { password }),
        ...(keyPrefix === undefined ? {} : { keyPrefix }),
        ...(db === undefined ? {} : { database: db }),
        commandOptions: {
          ...(commandMs === undefined ? {} : { timeout: commandMs }),
          ...(strings && RESP_TYPES /* node-redis 4 has none */ ? { typeMapping: { [RESP_TYPES.NUMBER]: String } } : {}),
        },
      }),
      settings,
    ),
};
