import type { Address, Connection } from './connector.js';
import { nameOf } from './routes.js';
import { now, within } from './time.js';

/** How long a Sentinel may take to reply, in ms, if there is that much time. */
const QUERY_MS = 1_000;

/** How long one that failed comes last, in ms. */
const DOUBT_MS = 10_000;

/**
 * A function that finds the current master of this name. `open` connects to a Sentinel. They are queried one after the
 * other, round-robin, so that one that is partitioned from the others is not trusted forever.
 */
export function masterFinder(
  name: string,
  sentinels: readonly Address[],
  open: (sentinel: Address, signal: AbortSignal, timeoutMs: number) => Promise<Connection>,
) {
  const failed = new Map<Address, number>();
  const isDoubtful = (sentinel: Address) => now() - (failed.get(sentinel) ?? -Infinity) < DOUBT_MS;
  let next = 0;

  const query = async (sentinel: Address, signal: AbortSignal, timeoutMs: number): Promise<Address> => {
    const connection = await open(sentinel, signal, timeoutMs);
    signal.addEventListener('abort', () => connection.close());
    try {
      signal.throwIfAborted();
      connection.keepAlive(true);
      const reply = await connection.send(['SENTINEL', 'GET-MASTER-ADDR-BY-NAME', name]);
      if (!Array.isArray(reply)) {
        throw new Error(`the Sentinel ${nameOf(sentinel)} does not know ${name}`);
      }
      return { host: String(reply[0]), port: Number(reply[1]) };
    } finally {
      connection.close();
    }
  };

  return async (signal: AbortSignal, timeoutMs: number): Promise<Address> => {
    const start = next++ % sentinels.length;
    const order = [...sentinels.slice(start), ...sentinels.slice(0, start)];
    order.sort((one, other) => Number(isDoubtful(one)) - Number(isDoubtful(other)));
    const ms = Math.min(timeoutMs / sentinels.length, QUERY_MS);
    let last: unknown;
    for (const sentinel of order) {
      const silent = () => new Error(`no reply from the Sentinel ${nameOf(sentinel)} within ${Math.round(ms)} ms`);
      try {
        const master = await within(ms, signal, silent, (stop) => query(sentinel, stop, ms));
        failed.delete(sentinel);
        return master;
      } catch (error) {
        signal.throwIfAborted();
        failed.set(sentinel, now());
        last = error;
      }
    }
    throw last;
  };
}
