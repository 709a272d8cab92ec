/** What the core needs from a client library. The adapters implement it, independently of locks. */

/** The address of a server. */
export interface Address {
  host: string;
  port: number;
}

/** A word of a command. */
export type Word = string | Buffer;

/** Commands whose replies have values of users, which need not be text: these replies consist of Buffers. */
const OF_BYTES: ReadonlySet<Word | undefined> = new Set(['BLMOVE', 'LRANGE', 'DELAY.LIST']);

/** Whether the reply to a command consists of Buffers instead of strings. */
export function repliesBytes([name]: readonly Word[]): boolean {
  return OF_BYTES.has(name);
}

/** One connection, which never reconnects and never sends a command twice. */
export interface Connection {
  /**
   * Sends one command; see repliesBytes. Resolves to the reply, null for null; rejects with a ServerError for an error reply, and with
   * the library's own error when the connection is lost: then the command may or may not have been executed.
   */
  send(args: Word[]): Promise<unknown>;
  /** Closes it at once; pending commands are rejected. May be called again. */
  close(): void;
  /** Calls `listener` when the connection is closed or lost, perhaps more than once. */
  onClose(listener: () => void): void;
  /** Whether the connection keeps the process alive. */
  keepAlive(yes: boolean): void;
}

/** Opens connections with the settings of a user's client. */
export interface Connector {
  /**
   * What all programs call this server: `host:port` of the client's configuration, the name of a Sentinel's master, or the
   * smallest `host:port` of a cluster's configured nodes.
   */
  readonly name: string;
  /** The prefix that the client adds to every key; may be empty. */
  readonly prefix: string;
  /** The nodes of a cluster that are known now. Null without a cluster. */
  readonly nodes: (() => Address[]) | null;
  /** Sentinels say which server it is. */
  readonly hasSentinels?: boolean;
  /** The address of this node, and without a cluster of the server, for texts. */
  addressOf(node: Address | null): string;
  /** For a cluster: the address under which a node is reachable from here. */
  readonly map?: (address: Address) => Address;
  /**
   * A new connection to this node of the cluster; without a cluster, to the server or to the current master according
   * to the Sentinels. Rejects with the library's error, or when `signal` is aborted; then no connection is left open.
   * The library's own limits for this are at most `timeoutMs`.
   */
  connect(node: Address | null, signal: AbortSignal, timeoutMs: number): Promise<Connection>;
}
