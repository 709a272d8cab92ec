/** What the core needs of a client library: an adapter makes these, and knows nothing of locks. */

/** Where a server listens. */
export interface Address {
  host: string;
  port: number;
}

/** One connection, which never reconnects and never sends anything twice. */
export interface Connection {
  /**
   * Sends one command. Resolves to the reply, null for null; rejects with a ServerError for an error reply, and with the
   * library's own error when the connection is lost, so that the command may or may not have been executed.
   */
  send(args: string[]): Promise<unknown>;
  /** Closes it at once; what has no answer yet is rejected. May be called again. */
  close(): void;
  /** Calls `listener` once, when the connection is gone, also by close(). */
  onClose(listener: () => void): void;
  /** Whether the connection keeps the process alive. */
  keepAlive(yes: boolean): void;
}

/** Makes connections with the settings of a user's client. */
export interface Connector {
  /** What the client puts before every key; may be empty. */
  readonly prefix: string;
  /** Of a cluster: some of its nodes, those known now. Null without a cluster. */
  readonly nodes: (() => Address[]) | null;
  /** Of a cluster: the address under which this side finds a node. */
  readonly map?: (address: Address) => Address;
  /**
   * A new connection to this node of the cluster; without one to the server, or whom the Sentinels say is the master.
   * Rejects with the library's error, or when `signal` is aborted; then nothing is left open.
   */
  connect(node: Address | null, signal: AbortSignal): Promise<Connection>;
}
