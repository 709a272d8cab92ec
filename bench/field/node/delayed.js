// The delayed queue of one client library: connect(), push(value, ms), and consume(receive), which calls
// receive(value) for each element that is due. Both competitors use ioredis, with its defaults.

const Redis = require('ioredis');
const { Queue, Worker } = require('bullmq');

const HOST = '127.0.0.1';

// DELAY.PUSH and BLPOP.
function ioredis(port, name) {
    const client = new Redis({ host: HOST, port });
    return {
        connect: () => client.ping(),
        push: (value, ms) => client.call('DELAY.PUSH', name, '*', ms, value),
        consume: async (receive) => {
            // A blocking command needs a connection of its own.
            const consumer = client.duplicate();
            for (;;) {
                receive((await consumer.blpop(name, 0))[1]);
            }
        },
    };
}

// Queue.add with a delay, and one Worker.
function bullmq(port, name) {
    const connection = { host: HOST, port };
    const queue = new Queue(name, { connection });
    return {
        connect: () => queue.waitUntilReady(),
        push: (value, ms) => queue.add('element', value, { delay: ms }),
        consume: async (receive) => {
            const worker = new Worker(name, async (job) => receive(job.data), { connection });
            await worker.waitUntilReady();
        },
    };
}

module.exports = { ioredis, bullmq };
