/** What a server is, so that a RedLock counts no server twice. */
import { ServerError } from './errors.js';
import { field } from './info.js';

export interface Identity {
  /** Undefined if the user may not request it. */
  runId: string | undefined;
  isReplica: boolean;
  /** Its id in a cluster, and those of all nodes that it knows there. */
  node: string | undefined;
  nodes: readonly string[];
}

/** Queries a server. */
export async function identify(send: (args: string[]) => Promise<unknown>): Promise<Identity> {
  const permitted = async (args: string[]) => {
    try {
      return await send(args);
    } catch (error) {
      if (error instanceof ServerError && error.code === 'NOPERM') {
        return '';
      }
      throw error;
    }
  };
  const [hello, info] = await Promise.all([send(['HELLO']), permitted(['INFO', 'server'])]);
  const identity = {
    runId: /^run_id:(\S+)/m.exec(String(info))?.[1],
    isReplica: String(field(hello, 'role')) !== 'master',
    node: undefined,
    nodes: [],
  };
  if (String(field(hello, 'mode')) !== 'cluster') {
    return identity;
  }
  const nodes = String(await permitted(['CLUSTER', 'NODES'])).split('\n').map((line) => line.split(' '));
  const own = nodes.find(([, , flags]) => flags?.split(',').includes('myself'));
  return { ...identity, node: own?.[0], nodes: nodes.flatMap(([id]) => (id ? [id] : [])) };
}

interface Named {
  name: string;
  identity: Identity | undefined;
}

/** Why a server is no independent one, by itself or with another one; undefined if it is, as far as is known. */
export function reasonAgainst(server: Named, other: Named | undefined): string | undefined {
  const [one, two] = [server.identity, other?.identity];
  if (one?.isReplica) {
    return `${server.name} is a replica, and no independent server`;
  }
  if (one === undefined || two === undefined || other === undefined) {
    return undefined;
  }
  if (one.runId !== undefined && one.runId === two.runId) {
    return `${other.name} and ${server.name} are the same server`;
  }
  return one.node !== undefined && two.nodes.includes(one.node)
    ? `${other.name} and ${server.name} are nodes of one cluster, and not independent`
    : undefined;
}
