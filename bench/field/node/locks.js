// Locks, by the libraries that Node programs use. README.md in bench/field says what each command does and prints.

const { setTimeout: sleep } = require('node:timers/promises');
const readline = require('node:readline');
const { gaveUp, lease, libraries } = require('./libraries');

const LOCK = 'lock';
const HANDS = 16;

const nanos = () => process.hrtime.bigint();
const sinceUs = (start) => Math.round(Number(nanos() - start) / 100) / 10;
const say = (at, more) => console.log(JSON.stringify({ at, ...more }));
const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const awaitLine = () => lines.next();
const times = (count, make) => Array.from({ length: count }, (_, i) => make(i));
const never = () => new Promise(() => {});

function fail(error) {
    console.error(error);
    say('failed', { why: String(error.message) });
    process.exit(1);
}

// All steps are repeated for that long, each by a worker of its own; a step returns the measured µs. A step that ends
// after the end of the measurement counts as a wait, but not in the throughput.
async function inLoops(steps, ms) {
    const end = nanos() + BigInt(ms) * 1000000n;
    return Promise.all(
        steps.map(async (step) => {
            const mine = { us: [], inTime: 0 };
            while (nanos() < end) {
                mine.us.push(await step());
                mine.inTime += nanos() < end ? 1 : 0;
            }
            return mine;
        }),
    );
}

// Runs the loops twice: the first time to warm up.
async function measured(steps, warmMs, ms) {
    await inLoops(steps, warmMs);
    say('ready');
    await awaitLine();
    gaveUp.times = 0;
    const results = await inLoops(steps, ms);
    const pairs = results.map((result) => result.inTime);
    say('done', { pairs, us: results.flatMap((result) => result.us), gave_up: gaveUp.times });
    await awaitLine();
}

// A step for each client: it acquires and releases a lock of its own.
async function pairs(library, clients) {
    const workers = await Promise.all(times(clients, library.worker));
    return workers.map((worker, i) => async () => {
        const start = nanos();
        await worker.acquire(`${LOCK}-${i}`);
        await worker.release(`${LOCK}-${i}`);
        return sinceUs(start);
    });
}

async function pair(library, clients, warmMs, ms) {
    await measured(await pairs(library, clients), warmMs, ms);
}

// Pairs, alternating with the same by SET NX and DEL on the server at that port.
async function turns(library, clients, warmMs, ms, count, port) {
    const sides = [await pairs(library, clients), await pairs(libraries.setdel(port), clients)];
    for (const side of sides) {
        await inLoops(side, warmMs);
    }
    say('ready');
    await awaitLine();
    const us = [[], []];
    for (let i = 0; i < 2 * count; i += 1) {
        const which = Math.floor((i + 1) / 2) % 2; // 0 1 1 0
        const results = await inLoops(sides[which], ms);
        us[which].push(results.flatMap((result) => result.us));
    }
    say('done', { us: us[0], other_us: us[1] });
    await awaitLine();
}

async function hot(library, clients, locks, warmMs, ms) {
    const workers = await Promise.all(times(clients, library.worker));
    const step = (worker, i) => {
        let random = i + 1; // the same sequence in all languages
        return async () => {
            random = (random * 48271) % 2147483647;
            const name = `${LOCK}-${random % locks}`;
            const start = nanos();
            await worker.acquire(name);
            const waited = sinceUs(start);
            await worker.release(name);
            return waited;
        };
    };
    await measured(workers.map(step), warmMs, ms);
}

// From a release to the next grant, with `waiters` waiting; the warm-up is `warm` hand-offs and `warmMs` at least. While the
// gate is shut the holder keeps the lock.
async function handoff(library, waiters, warm, warmMs, rounds, limitMs, holdMs) {
    const us = [];
    let [generation, releasedAt, counting] = [0, 0n, false];
    let [warmUntil, isWarm] = [0n, false];
    let next = []; // the worker that has released waits until another was granted the lock
    let [ready, open, over] = [];
    const isReady = new Promise((resolve) => (ready = resolve));
    const gate = new Promise((resolve) => (open = resolve));
    const isOver = new Promise((resolve) => (over = resolve));

    async function granted(now) {
        generation += 1;
        next.splice(0).forEach((go) => go());
        if (counting) {
            us.push(Math.round(Number(now - releasedAt) / 100) / 10);
        }
        if (generation === 1) {
            warmUntil = now + BigInt(warmMs) * 1000000n;
        }
        if (!isWarm && generation >= warm && now >= warmUntil) {
            isWarm = true;
            ready();
            await gate;
        } else if (us.length === rounds) {
            over();
            await never();
        }
    }

    async function work(worker) {
        for (;;) {
            await worker.acquire(LOCK);
            await granted(nanos());
            await sleep(holdMs);
            const mine = generation;
            releasedAt = nanos();
            await worker.release(LOCK);
            if (generation === mine) {
                await new Promise((resolve) => next.push(resolve));
            }
        }
    }

    const workers = await Promise.all(times(waiters + 1, library.worker));
    workers.forEach((worker) => work(worker).catch(fail));
    await isReady;
    say('ready');
    await awaitLine();
    counting = true;
    gaveUp.times = 0;
    open();
    await Promise.race([isOver, sleep(limitMs)]);
    say('done', { us, gave_up: gaveUp.times });
    await awaitLine();
}

async function hold(library, count, first) {
    const workers = await Promise.all(times(Math.min(HANDS, count), library.worker));
    say('connected');
    await awaitLine();
    await Promise.all(
        workers.map(async (worker, hand) => {
            for (let i = first + hand; i < first + count; i += HANDS) {
                await worker.acquire(`${LOCK}-${i}`);
            }
        }),
    );
    say('held');
    await awaitLine();
}

async function awaitOne(library) {
    const worker = await library.worker();
    say('connected');
    await awaitLine();
    say('asking');
    await worker.acquire(`${LOCK}-0`);
    say('granted', { ns: Number(nanos()) });
    await awaitLine();
}

async function crowd(library, count) {
    const holder = await library.worker();
    say('connected');
    await awaitLine();
    await holder.acquire(LOCK);
    const workers = await Promise.all(times(count, library.worker));
    workers.forEach((worker) => worker.acquire(LOCK).catch(fail));
    say('waiting');
    await awaitLine();
}

const commands = { pair, turns, hot, handoff, hold, await: awaitOne, crowd };

async function main() {
    const [who, command, port, ...numbers] = process.argv.slice(2);
    const [name, kind] = who.split(':');
    // A longer lease, for locks that must not expire during the measurement.
    if (command === 'crowd' || (command === 'hold' && numbers[0] !== '1')) {
        lease.ms = 600000;
    }
    const library = libraries[name](Number(port), kind);
    await library.ready();
    await commands[command](library, ...numbers.map(Number));
}

main().then(() => process.exit(0), fail);
