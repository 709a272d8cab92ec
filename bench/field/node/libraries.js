// The locks of one library: library(port, kind) has ready(), and worker(), which makes one of the workers that use locks at
// the same time, with acquire(name) and release(name). All libraries use ioredis, with its defaults.

const { randomUUID } = require('node:crypto');
const { setTimeout: sleep } = require('node:timers/promises');
const Redis = require('ioredis');
const Redlock = require('redlock');

const HOST = '127.0.0.1';
// node-redlock has no default lease.
const lease = { ms: 30000 };
// The pause between two tries where polling is the only way to wait: the same as in redis-py's Lock.
const PAUSE_MS = 100;
const COMPARE_AND_DELETE =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

// How often a library has given up by its defaults, after which the worker tried again.
const gaveUp = { times: 0 };

// lock.so: each waiter has a connection; all workers release on one shared connection. A worker of the kind `try`, which
// does not wait, also acquires on the shared connection, as SET NX does.
function ioredis(port, kind) {
    const client = new Redis({ host: HOST, port });
    const words = kind === 'session' ? ['SESSION'] : ['PX', lease.ms];
    const wait = kind === 'try' ? [] : ['BLOCK', 0];
    return {
        ready: () => client.ping(),
        worker: async () => {
            const own = kind === 'try' ? client : client.duplicate();
            await own.ping();
            let owner;
            return {
                acquire: (name) => {
                    owner = randomUUID();
                    return own.call('LOCK.ACQUIRE', name, owner, ...words, ...wait);
                },
                release: (name) => client.call('LOCK.RELEASE', name, owner),
            };
        },
    };
}

function redlock(port) {
    const client = new Redis({ host: HOST, port });
    const locks = new Redlock([client]);
    return {
        ready: () => client.ping(),
        worker: async () => {
            let held;
            return {
                acquire: async (name) => {
                    for (;;) {
                        try {
                            held = await locks.lock(name, lease.ms);
                            return;
                        } catch (error) {
                            if (error.name !== 'LockError') {
                                throw error;
                            }
                            gaveUp.times += 1;
                        }
                    }
                },
                release: () => held.unlock(),
            };
        },
    };
}

function bare(port, release) {
    const client = new Redis({ host: HOST, port });
    client.defineCommand('compareAndDelete', { numberOfKeys: 1, lua: COMPARE_AND_DELETE });
    return {
        ready: () => client.ping(),
        worker: async () => {
            let owner;
            return {
                acquire: async (name) => {
                    owner = randomUUID();
                    while ((await client.set(name, owner, 'PX', lease.ms, 'NX')) === null) {
                        await sleep(PAUSE_MS);
                    }
                },
                release: (name) => release(client, name, owner),
            };
        },
    };
}

const setnx = (port) => bare(port, (client, name, owner) => client.compareAndDelete(name, owner));
const setdel = (port) => bare(port, (client, name) => client.del(name));

module.exports = { gaveUp, lease, libraries: { ioredis, redlock, setnx, setdel } };
