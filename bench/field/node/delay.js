// The delayed queue, by ioredis and by BullMQ. README.md in bench/field says what each command does and prints.

const { setTimeout: sleep } = require('node:timers/promises');
const readline = require('node:readline');
const delayed = require('./delayed');
const { nowMs, make, lateMs } = require('./element');

const WARM = 500;

const say = (what) => console.log(JSON.stringify(what));

const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const awaitLine = () => lines.next();

class Taker {
    constructor(queue) {
        this.late = [];
        this.received = [];
        this.warm = 0;
        queue.consume((element) => this.note(element, nowMs()));
    }

    note(element, now) {
        if (element[0] === 'w') {
            this.warm += 1;
        } else {
            this.late.push(lateMs(element, now));
            this.received.push(now);
        }
    }
}

async function until(condition) {
    while (!condition()) {
        await sleep(5);
    }
}

// Pushes at a steady rate, with delays that are the same in each language; returns how long it took. A push does not
// wait for the reply to the previous push, and neither would a service that handles many requests.
async function pushAll(queue, letter, rate, count, lowMs, highMs) {
    const start = nowMs();
    const replies = [];
    let random = 1;
    for (let i = 0; i < count; i++) {
        while (nowMs() < start + (i * 1000) / rate) {
            await sleep(1);
        }
        random = (random * 48271) % 2147483647;
        const ms = lowMs + (random % (highMs - lowMs + 1));
        replies.push(queue.push(make(letter, nowMs() + ms), ms));
    }
    await Promise.all(replies);
    return (nowMs() - start) / 1000;
}

async function flow(queue, rate, count, lowMs, highMs) {
    const taker = new Taker(queue);
    await pushAll(queue, 'w', 250, WARM, 10, 100);
    await until(() => taker.warm >= WARM);
    say({ at: 'ready' });
    await awaitLine();
    const pushing = await pushAll(queue, 'e', rate, count, lowMs, highMs);
    await until(() => taker.late.length >= count);
    say({ at: 'done', pushing_s: pushing, late_ms: taker.late });
    await awaitLine();
}

async function push(queue, count, ms) {
    const replies = [];
    let due = 0;
    for (let i = 0; i < count; i++) {
        due = nowMs() + ms;
        replies.push(queue.push(make('e', due), ms));
    }
    await Promise.all(replies);
    say({ at: 'pushed', due_ms: due });
    await awaitLine();
}

async function take(queue, count, seconds) {
    const start = nowMs();
    const taker = new Taker(queue);
    await until(() => taker.late.length >= count || nowMs() >= start + seconds * 1000);
    say({ at: 'done', start_ms: start, late_ms: taker.late, received_ms: taker.received });
    await awaitLine();
}

async function waitIdly(queue, ms) {
    new Taker(queue);
    await queue.push(make('e', nowMs() + ms), ms);
    say({ at: 'ready' });
    await awaitLine();
}

const [competitor, command, port, name, ...rest] = process.argv.slice(2);
const queue = delayed[competitor](Number(port), name);
const commands = { flow, push, take, wait: waitIdly };

async function main() {
    // Otherwise the first elements would be late by the time that connecting takes.
    await queue.connect();
    await commands[command](queue, ...rest.map(Number));
}

main().then(
    () => process.exit(0),
    (error) => {
        console.error(error);
        process.exit(1);
    },
);
