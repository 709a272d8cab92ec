import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';

/**
 * A proxy that closes the connection instead of passing on the first answer to a command of this name: the command has
 * been executed, and who sent it cannot know.
 */
export class Cut {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #armed = true;

  private constructor(port: number, command: string) {
    this.#server = createServer((client) => {
      const server = connect(port, '127.0.0.1');
      let asked = false;
      client.on('data', (data) => {
        asked ||= data.includes(command);
        server.write(data);
      });
      server.on('data', (data) => {
        if (asked && this.#armed) {
          this.#armed = false;
          client.destroy();
        } else {
          client.write(data);
        }
      });
      this.#join(client, server);
      this.#join(server, client);
    });
  }

  #join(one: Socket, other: Socket): void {
    this.#sockets.add(one);
    one.on('error', () => {}).on('close', () => (this.#sockets.delete(one), other.destroy()));
  }

  static async start(port: number, command: string): Promise<Cut> {
    const cut = new Cut(port, command);
    await new Promise<void>((resolve) => cut.#server.listen(0, '127.0.0.1', resolve));
    return cut;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  async stop(): Promise<void> {
    this.#sockets.forEach((socket) => socket.destroy());
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
