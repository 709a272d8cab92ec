import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { Closed, Refused, type Job } from '../src/index.js';
import { ServerError } from '../src/errors.js';
import { besides, format, parse } from '../src/job.js';
import { Locks } from '../src/locks.js';
import { Fake, later, until } from './fake.js';
import { LIBRARIES } from './libraries.js';
import { TestServer } from './server.js';

let server: TestServer;
before(async () => void (server = await TestServer.start()));
after(() => server.stop());

const DONE = new Error('done');

/** Consumes until the handler has run so often, and the result of its last job is recorded. */
async function consumed(
  locks: Locks,
  list: string,
  jobs: number,
  handler: (job: Job) => unknown,
  options: { timeoutMs?: number; maxTries?: number; backoffMs?: number } = {},
): Promise<void> {
  const abort = new AbortController();
  let count = 0;
  const counted = async (job: Job) => {
    if (++count === jobs) {
      abort.abort(DONE);
    }
    await handler(job);
  };
  await assert.rejects(locks.delayedQueue(list).consume(counted, { ...options, signal: abort.signal }), DONE);
}

/** The warnings of this process from now on. */
function warnings(): string[] {
  const texts: string[] = [];
  const listener = ({ message }: Error) => void texts.push(message);
  process.on('warning', listener);
  after(() => void process.off('warning', listener));
  return texts;
}

/** Waits until the list has this many elements. */
async function length(list: string, wanted: number): Promise<void> {
  while ((await server.ask.llen(list)) !== wanted) {
    await new Promise(setImmediate);
  }
}

async function isEmpty(list: string): Promise<void> {
  assert.deepEqual(await server.ask.keys(`*${list}*`), []);
}

for (const [name, library] of Object.entries(LIBRARIES)) {
  test(`${name}: elements are pushed, shown and cancelled`, async () => {
    const locks = library(server.port, { keyPrefix: `${name}:` });
    const queue = locks.delayedQueue('q');
    assert.equal(await queue.push('late', 60_000, { id: 'a' }), 'a');
    const id = await queue.push(Buffer.from('soon'), 30_000);
    const elements = await queue.list();
    assert.deepEqual(elements.map((each) => [each.id, each.value]), [[id, 'soon'], ['a', 'late']]);
    assert.ok(elements[0]!.leftMs > 20_000 && elements[0]!.leftMs <= 30_000);
    assert.equal((await queue.list(1)).length, 1);
    assert.deepEqual([await queue.cancel('a'), await queue.cancel('a'), await queue.cancel(id)], [true, false, true]);
    assert.deepEqual(await queue.list(), []);
    await queue.push('now', 0);
    await length(`${name}:q`, 1);
    await server.ask.del(`${name}:q`);
    await locks.close();
  });

  test(`${name}: a consumer tries again, gives up, and does not change bytes`, async () => {
    const locks = library(server.port, { keyPrefix: 'p:' });
    const texts = warnings();
    const bytes = Buffer.from([0, 255, 254, 10, 128]);
    await server.ask.rpush('p:jobs', bytes);
    const tries: [Buffer, number][] = [];
    const fails = async (job: Job) => {
      tries.push([job.bytes, job.tries]);
      await locks.delayedQueue('jobs').push('good', 0, { id: 'next' });
      throw new Error('no luck');
    };
    const handler = (job: Job) => (job.value === 'good' ? null : fails(job));
    const abort = new AbortController();
    const consumer = locks.delayedQueue('jobs').consume(handler, { maxTries: 2, backoffMs: 1, signal: abort.signal });
    await length('{p:jobs}:failed', 1);
    abort.abort(DONE);
    await assert.rejects(consumer, DONE);
    assert.deepEqual(tries, [[bytes, 1], [bytes, 2]]);
    assert.deepEqual(await server.ask.lrangeBuffer('{p:jobs}:failed', 0, -1), [bytes]);
    assert.ok(texts.includes('delayed queue "p:jobs": try 2 of 2 of a job failed: no luck'), texts.join());
    assert.ok(texts.includes('delayed queue "p:jobs": a job has failed 2 times, and is given up'), texts.join());
    await server.ask.del('{p:jobs}:failed');
    await isEmpty('jobs');
    await locks.close();
  });

  test(`${name}: what a dead consumer has left behind is delivered, with the tries that were begun`, async () => {
    const locks = library(server.port);
    await server.ask.rpush('{jobs}:taken', 'new', 'lock-so:3:tried', 'new');
    const seen: string[] = [];
    await consumed(locks, 'jobs', 3, ({ value, tries }) => void seen.push(`${value} ${tries}`));
    assert.deepEqual(seen, ['new 1', 'tried 4', 'new 1']);
    await isEmpty('jobs');
    await locks.close();
  });

  test(`${name}: a consumer survives that its connections are lost, and two share the work`, async () => {
    const locks = library(server.port);
    const seen: string[] = [];
    const abort = new AbortController();
    const queue = locks.delayedQueue('{t}jobs');
    const handler = ({ value }: Job) => void seen.push(value);
    const consumers = [1, 2].map(() => assert.rejects(queue.consume(handler, { signal: abort.signal }), DONE));
    await queue.push('0', 0);
    await until(() => seen.length === 1);
    await server.ask.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    for (let number = 1; number < 20; number++) {
      await server.ask.rpush('{t}jobs', String(number));
    }
    await until(() => seen.length === 20);
    abort.abort(DONE);
    await Promise.all(consumers);
    assert.equal(new Set(seen).size, 20);
    await isEmpty('{t}jobs');
    await locks.close();
  });

  test(`${name}: a job whose signal ends it is put back, and its try is not counted`, async () => {
    const locks = library(server.port);
    await server.ask.rpush('jobs', 'a');
    const started = later();
    const consumer = locks.delayedQueue('jobs').consume(async ({ signal }) => {
      started.resolve(null);
      await sleep(60_000, null, { signal });
    });
    await started.promise;
    await Promise.all([assert.rejects(consumer, Closed), locks.close()]);
    await length('jobs', 1);
    assert.equal(await server.ask.lpop('jobs'), 'lock-so:0:a');
    await isEmpty('jobs');
  });

  test(`${name}: a job that takes longer than its timeout is delivered again, with a warning`, async () => {
    const locks = library(server.port);
    const texts = warnings();
    await server.ask.rpush('jobs', 'slow');
    await consumed(locks, 'jobs', 1, () => length('jobs', 1), { timeoutMs: 20 });
    await until(() => texts.length > 0);
    assert.deepEqual(texts, ['delayed queue "jobs": a job took longer than its timeout of 20 ms: it will run again']);
    assert.equal(await server.ask.lpop('jobs'), 'lock-so:1:slow');
    await isEmpty('jobs');
    await locks.close();
  });

  test(`${name}: a list that is none ends the consumer`, async () => {
    const locks = library(server.port);
    await server.ask.set('jobs', 'x');
    await assert.rejects(locks.delayedQueue('jobs').consume(() => {}), (error) => error instanceof Refused && error.code === 'WRONGTYPE');
    await server.ask.del('jobs');
    await locks.close();
    const nothing = library(1, {}, { connectTimeoutMs: 1_000 });
    await assert.rejects(nothing.delayedQueue('jobs').consume(() => {}), { code: 'ECONNREFUSED' });
    await nothing.close();
  });
}

test('invalid options are refused before anything is sent', async () => {
  const fake = new Fake(() => 1);
  const queue = new Locks(fake).delayedQueue('q');
  await assert.rejects(queue.push('v', -1), { message: 'delayMs must be a whole number and not negative, not -1' });
  await assert.rejects(queue.push('v', 0, { id: '*' }), { message: "id must be a non-empty string other than '*', not '*'" });
  await assert.rejects(queue.push('lock-so:12:v', 0), /^RangeError: value must not begin as those/);
  await assert.rejects(queue.push({} as never, 0), { name: 'TypeError', message: 'value must be a string or bytes, not [object Object]' });
  await assert.rejects(queue.consume({} as never), { name: 'TypeError', message: 'handler must be a function, not [object Object]' });
  await assert.rejects(queue.list(0), { message: 'count must be at least 1, not 0' });
  await assert.rejects(queue.consume(() => {}, { timeoutMs: 0 }), { message: 'timeoutMs must be greater than 0, not 0' });
  await assert.rejects(queue.consume(() => {}, { maxTries: 0 }), { message: 'maxTries must be at least 1, not 0' });
  assert.equal(fake.sent.length, 0);
});

test('a push is repeated only with an id', async () => {
  const fake = new Fake((args, connection) => (fake.of('DELAY.PUSH').length % 2 ? connection.close() : args[2]));
  const locks = new Locks(fake);
  const queue = locks.delayedQueue('q');
  assert.equal(await queue.push('v', 5, { id: 'a' }), 'a');
  await assert.rejects(queue.push('v', 5), { message: 'connection lost' });
  assert.equal(fake.of('DELAY.PUSH').length, 3);
  await locks.close();
});

test('no number of tries ends a consumer', async () => {
  const element = Buffer.from(`lock-so:${'9'.repeat(400)}:a`);
  assert.deepEqual(parse(element), { value: Buffer.from('a'), tries: Number.MAX_SAFE_INTEGER - 1 });
  const fake = oneElement({}, element);
  const locks = new Locks(fake);
  const options = { maxTries: Number.MAX_SAFE_INTEGER, backoffMs: 0 };
  const consumer = locks.delayedQueue('q').consume(() => Promise.reject(new Error('no luck')), options);
  await until(() => fake.of('BLMOVE').length === 2);
  const stored = 'lock-so:9007199254740991:a';
  assert.deepEqual(fake.of('DELAY.PUSH').map((args) => args.slice(3)), [['60000', stored], ['0', stored]]);
  await Promise.all([assert.rejects(consumer, Closed), locks.close()]);
});

test('the marks of tries, and the names of lists', () => {
  const element = format({ value: Buffer.from('a:b'), tries: 0 });
  assert.equal(String(element), 'lock-so:0:a:b');
  assert.deepEqual(parse(element), { value: Buffer.from('a:b'), tries: 0 });
  assert.deepEqual(parse(Buffer.from('lock-so:x:')), { value: Buffer.from('lock-so:x:'), tries: 0 });
  assert.deepEqual(['q', '{t}q', '{}q', 'a{b'].map((list) => besides(list, 'taken')), [
    '{q}:taken',
    '{t}q:taken',
    '{{}q}:taken',
    '{a{b}:taken',
  ]);
});

test('a job that ends by its signal after its timeout is not put back: it was delivered again', async () => {
  const fake = oneElement({});
  const locks = new Locks(fake);
  const started = later();
  const consumer = locks.delayedQueue('q').consume(
    async ({ signal }) => {
      started.resolve(null);
      await sleep(5); // longer than the timeout
      await new Promise((_, reject) => (signal.aborted ? reject(signal.reason) : signal.addEventListener('abort', () => reject(signal.reason))));
    },
    { timeoutMs: 1 },
  );
  await started.promise;
  await sleep(5);
  await Promise.all([assert.rejects(consumer, Closed), locks.close()]);
  assert.equal(fake.of('DELAY.PUSH').length, 1);
});

test('a redirection ends a consumer whose client is not one for clusters', async () => {
  const fake = oneElement({ BLMOVE: () => Promise.reject(new ServerError('MOVED 1 server:6380')) });
  const locks = new Locks(fake);
  await assert.rejects(locks.delayedQueue('q').consume(() => {}), (error) => error instanceof Refused && error.code === 'MOVED');
  await locks.close();
});

/** A server whose list has one element; `replies` are those to certain commands. */
function oneElement(replies: Record<string, (time: number) => unknown>, element = Buffer.from('v')) {
  let given = false;
  const fake: Fake = new Fake((args) => {
    const name = args[0] ?? '';
    if (replies[name] !== undefined) {
      return replies[name](fake.of(name).length);
    }
    if (name === 'BLMOVE') {
      return given ? sleep(5, null) : ((given = true), element);
    }
    return name === 'LRANGE' ? [] : 1;
  });
  return fake;
}

test('an element that another consumer has claimed is left alone', async () => {
  const fake = oneElement({ LREM: () => 0 });
  const locks = new Locks(fake);
  const consumer = locks.delayedQueue('q').consume(() => assert.fail());
  await until(() => fake.of('DELAY.CANCEL').length === 1);
  assert.equal(fake.of('DELAY.CANCEL')[0]![2], fake.of('DELAY.PUSH')[0]![2]);
  await Promise.all([assert.rejects(consumer, Closed), locks.close()]);
});

test('if the reply to the removal gets lost, it is not repeated, and the job runs', async () => {
  const fake = oneElement({ LREM: (time) => (time === 1 ? Promise.reject(new Error('cut')) : 0) });
  const locks = new Locks(fake);
  const seen: string[] = [];
  const consumer = locks.delayedQueue('q').consume(({ value, tries }) => void seen.push(`${value} ${tries}`), { maxTries: 1 });
  await until(() => fake.of('BLMOVE').length === 2);
  assert.deepEqual([seen, fake.of('LREM').length, fake.of('DELAY.CANCEL').length], [['v 1'], 1, 1]);
  await Promise.all([assert.rejects(consumer, Closed), locks.close()]);
});

test('a claim that is refused is tried again by a later look, with a warning', async () => {
  const texts = warnings();
  const fake = oneElement({
    LRANGE: () => (fake.of('DELAY.PUSH').length > 1 ? [] : [Buffer.from('v')]),
    'DELAY.PUSH': (time) => {
      if (time === 1) {
        throw new ServerError('OOM command not allowed');
      }
      return 'id';
    },
  });
  const locks = new Locks(fake);
  const consumer = locks.delayedQueue('q').consume(() => {}, { backoffMs: 3_600_000 });
  await until(() => fake.of('LREM').length > 0);
  assert.equal(String(fake.of('DELAY.PUSH')[1]![4]), 'lock-so:0:v');
  await until(() => texts.length > 0);
  assert.deepEqual(texts, ['delayed queue "q": the server refuses a command (OOM command not allowed); trying again']);
  await Promise.all([assert.rejects(consumer, Closed), locks.close()]);
});
