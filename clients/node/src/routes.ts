import calculateSlot from 'cluster-key-slot';

import type { Address, Connector } from './connector.js';
import { endsConnection, isRedirection } from './errors.js';

/** A node, null without a cluster. `ask`: send ASKING first. */
export interface Route {
  node: Address | null;
  ask: boolean;
}

/** Which node of a cluster serves a key. This is learned from the redirections of the nodes. */
export class Routes {
  readonly #connector: Connector;
  readonly #masters = new Map<number, Address>();
  readonly #asking = new Map<number, Address>();
  #next = 0;

  constructor(connector: Connector) {
    this.#connector = connector;
  }

  /** Where to send a command about `key`; an ASK redirection is returned only once. */
  find(key: string): Route {
    if (this.#connector.nodes === null) {
      return { node: null, ask: false };
    }
    const slot = calculateSlot(key);
    const redirected = this.#asking.get(slot);
    this.#asking.delete(slot);
    return redirected === undefined ? { node: this.#masters.get(slot) ?? this.#any(), ask: false } : { node: redirected, ask: true };
  }

  /** Records that this node serves the key: it has executed a command without ASKING. */
  found(key: string, node: Address | null): void {
    if (node !== null) {
      this.#masters.set(calculateSlot(key), node);
    }
  }

  /**
   * Records the error of a command on a node. True if it redirects to a node that was not known before, so that no
   * pause is needed.
   */
  learn(key: string, node: Address | null, error: unknown): boolean {
    if (node === null) {
      if (isRedirection(error)) {
        error.isFinal = true; // the user's client is not one for clusters
      }
      return false;
    }
    const slot = calculateSlot(key);
    if (isRedirection(error)) {
      const known = this.#masters.get(slot);
      const target = this.#parse(error.message.split(' ')[2] ?? '', node);
      (error.code === 'MOVED' ? this.#masters : this.#asking).set(slot, target);
      return error.code === 'ASK' || known === undefined || nameOf(known) !== nameOf(target);
    }
    if (endsConnection(error)) {
      this.#masters.delete(slot);
    }
    return false;
  }

  /** The next of the known nodes, round-robin, so that a node that is down is not used again and again. */
  #any(): Address {
    const known = [...(this.#connector.nodes?.() ?? []), ...this.#masters.values()];
    const node = known[this.#next++ % known.length];
    if (node === undefined) {
      throw new Error('no node of the cluster is known');
    }
    return node;
  }

  /** Parses `host:port`; without a host it is the host of the node that replied. */
  #parse(text: string, from: Address): Address {
    const colon = text.lastIndexOf(':');
    const named = { host: text.slice(0, colon) || from.host, port: Number(text.slice(colon + 1)) };
    return this.#connector.map?.(named) ?? named;
  }
}

/** The first of these texts in the order of their bytes, which is the same in all languages; empty without any. */
export function smallest(texts: readonly string[]): string {
  return [...texts].sort(compareBytes)[0] ?? '';
}

export function compareBytes(one: string, other: string): number {
  return Buffer.compare(Buffer.from(one), Buffer.from(other));
}

/** The key of a node in maps; empty without a cluster. */
export function nameOf(node: Address | null): string {
  return node === null ? '' : `${node.host}:${node.port}`;
}
