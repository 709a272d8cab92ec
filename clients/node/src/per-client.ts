import { checkOptions } from './command.js';
import type { Settings } from './connections.js';
import type { Connector } from './connector.js';
import { Locks } from './locks.js';

/**
 * A function that returns the locks of a client, always the same object until it is closed, so that all users of one
 * client share connections. The settings of the first call apply; others are refused later.
 */
export function perClient<Client extends object>(
  connectorOf: (client: Client) => Connector,
): (client: Client, settings?: Settings) => Locks {
  const known = new WeakMap<Client, Locks>();
  return (client, settings = {}) => {
    checkOptions(settings, { maxBlockMs: true, connectTimeoutMs: true });
    let locks = known.get(client);
    if (locks === undefined || locks.isClosed) {
      locks = new Locks(connectorOf(client), settings);
      known.set(client, locks);
    } else {
      locks.checkSettings(settings);
    }
    return locks;
  };
}
