import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import Redis from 'ioredis';

export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** The fields of LOCK.INFO's reply that tests read. */
export interface Info {
  waiting: number;
  watchers: number;
  waiters: { waited: number }[];
}

/** A map in a reply, which versions of ioredis return as an object or as a list. */
function fields(reply: unknown): Record<string, unknown> | null {
  if (!Array.isArray(reply)) {
    return reply as Record<string, unknown> | null;
  }
  return Object.fromEntries(reply.flatMap((name, at) => (at % 2 === 0 ? [[name, reply[at + 1]]] : [])));
}

/** A server with the module, for one test file: the paths are MODULE and SERVER. */
export class TestServer {
  readonly port: number;
  /** The port of the cluster bus. */
  readonly bus: number;
  /** A client for the tests themselves. */
  readonly ask: Redis;
  readonly #process: ChildProcess;
  readonly #folder: string;

  private constructor(port: number, bus: number, process: ChildProcess, folder: string) {
    this.port = port;
    this.bus = bus;
    this.#process = process;
    this.#folder = folder;
    this.ask = new Redis(port, '127.0.0.1', {
      lazyConnect: true,
      retryStrategy: () => 20,
      maxRetriesPerRequest: null,
    });
    this.ask.on('error', () => {});
  }

  static async start({ module = true, more = [] }: { module?: boolean; more?: string[] } = {}): Promise<TestServer> {
    const { MODULE, SERVER } = process.env;
    if (!MODULE) {
      throw new Error('MODULE=path/to/lock.so is needed');
    }
    for (let time = 0; time < 10; time++) {
      const [port, bus, folder] = [await freePort(), await freePort(), await mkdtemp(join(tmpdir(), 'lock-so-'))];
      const args = ['--port', String(port), '--cluster-port', String(bus), '--bind', '127.0.0.1', '--save', '', '--dir', folder];
      const child = spawn(SERVER || 'redis-server', [...args, ...(module ? ['--loadmodule', MODULE] : []), ...more], { stdio: 'ignore' });
      const server = new TestServer(port, bus, child, folder);
      if (await server.#listens()) {
        return server;
      }
      await server.stop();
    }
    throw new Error('the server has not started; can it load the module?');
  }

  /** Whether this server replies. It ends if another process has taken the port. */
  async #listens(): Promise<boolean> {
    const ended = new Promise<string>((resolve) => this.#process.once('exit', () => resolve('')));
    const info = await Promise.race([ended, this.ask.info('server').catch(() => '')]);
    return info.includes(`process_id:${this.#process.pid}\r\n`);
  }

  /** The reply of LOCK.INFO; null if the key has neither holders nor waiters. */
  async info(key: string): Promise<Info | null> {
    const info = fields(await this.ask.call('LOCK.INFO', key));
    return info && ({ ...info, waiters: (info.waiters as unknown[]).map(fields) } as Info);
  }

  /** Waits until the reply of LOCK.INFO is as wanted. */
  async until(key: string, wanted: (info: Info | null) => boolean): Promise<void> {
    while (!wanted(await this.info(key))) {
      await new Promise(setImmediate);
    }
  }

  /** Waits until the key has a waiter. */
  waiting(key: string): Promise<void> {
    return this.until(key, (info) => (info?.waiting ?? 0) > 0);
  }

  signal(name: NodeJS.Signals): void {
    this.#process.kill(name);
  }

  async stop(): Promise<void> {
    this.ask.disconnect();
    if (this.#process.exitCode === null && this.#process.signalCode === null) {
      const ended = new Promise((resolve) => this.#process.once('exit', resolve));
      this.#process.kill('SIGKILL');
      await ended;
    }
    await rm(this.#folder, { recursive: true });
  }
}
