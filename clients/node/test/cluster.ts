import { TestServer } from './server.js';

const MASTERS = 3;

/** The first slot of a master. */
function slot(index: number): number {
  return Math.floor((16_384 * index) / MASTERS);
}

/** A cluster of three masters, for one test file. */
export class TestCluster {
  readonly servers: readonly TestServer[];

  private constructor(servers: TestServer[]) {
    this.servers = servers;
  }

  static async start(): Promise<TestCluster> {
    const servers: TestServer[] = [];
    for (let index = 0; index < MASTERS; index++) {
      const server = await TestServer.start({ more: ['--cluster-enabled', 'yes'] });
      servers.push(server);
      await server.ask.call('CLUSTER', 'ADDSLOTSRANGE', slot(index), slot(index + 1) - 1);
      await server.ask.call('CLUSTER', 'SET-CONFIG-EPOCH', index + 1);
      await servers[0]!.ask.call('CLUSTER', 'MEET', '127.0.0.1', server.port, server.bus);
    }
    const cluster = new TestCluster(servers);
    await cluster.#together();
    return cluster;
  }

  /** Waits until each node covers all slots. */
  async #together(): Promise<void> {
    for (const { ask } of this.servers) {
      while (!String(await ask.call('CLUSTER', 'INFO')).includes('cluster_state:ok')) {
        await new Promise(setImmediate);
      }
    }
  }

  async stop(): Promise<void> {
    await Promise.all(this.servers.map((server) => server.stop()));
  }
}
