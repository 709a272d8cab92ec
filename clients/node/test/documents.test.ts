// Compiles and runs the examples of README.md and of docs/clients/node.md.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';

import { TestCluster } from './cluster.js';
import { TestServer } from './server.js';

const run = promisify(execFile);
const PACKAGE = join(__dirname, '..', '..', '/');
// In the package's folder, so that examples can import the package by its name.
const FOLDER = `${PACKAGE}examples/`;

/** What the README's examples use that are no whole programs. */
const README_BEGINS = `
import { Redis } from 'ioredis';
import { withLock } from 'lock-so/ioredis';
const redis = new Redis();
const signal = AbortSignal.timeout(60_000);
const work = async (_: unknown) => console.log('working');
`;

let server: TestServer;
let cluster: TestCluster;
/** The programs, and the output of each. */
let programs: { output: string }[];

async function examplesOf(path: string, language = 'ts'): Promise<string[]> {
  const text = await readFile(path, 'utf8');
  return [...text.matchAll(new RegExp(`\`\`\`${language}\n(.*?)\`\`\``, 'gs'))].map(([, code]) => code!);
}

before(async () => {
  server = await TestServer.start();
  cluster = await TestCluster.start();
  const { PAGE } = process.env;
  assert.ok(PAGE, 'PAGE=path/to/docs/clients/node.md is needed');
  const readme = [README_BEGINS, ...(await examplesOf(`${PACKAGE}README.md`)), 'redis.disconnect();'].join('\n');
  const whole = [...(await examplesOf(`${PACKAGE}README.md`, 'js')), ...(await examplesOf(PAGE))];
  const outputs = ['working\n'.repeat(4), 'working\n', 'working\n', 'working\n', 'working\n', 'given up\n', '2\n'];
  assert.equal(whole.length + 1, outputs.length);
  programs = outputs.map((output) => ({ output }));

  await rm(FOLDER, { recursive: true, force: true });
  await mkdir(FOLDER);
  for (const [number, code] of [readme, ...whole].entries()) {
    const { port } = code.includes('new Cluster(') ? cluster.servers[0]! : server;
    const own = code.replaceAll('6379', String(port)).replaceAll('new Redis()', `new Redis(${port})`);
    await writeFile(`${FOLDER}${number}.mts`, own);
  }
  const options = { rootDir: '.', outDir: '.', declaration: false, noUnusedLocals: false };
  const settings = { extends: '../tsconfig.json', compilerOptions: options, include: ['*.mts'], exclude: [] };
  await writeFile(`${FOLDER}tsconfig.json`, JSON.stringify(settings));
  await run(`${PACKAGE}node_modules/.bin/tsc`, ['-p', FOLDER]);
});

after(async () => {
  await rm(FOLDER, { recursive: true, force: true });
  await Promise.all([server.stop(), cluster.stop()]);
});

test('each example has its output, ends by itself, and leaves nothing behind', { timeout: 120_000 }, async () => {
  for (const [number, { output }] of programs.entries()) {
    const { stdout, stderr } = await run(process.execPath, [`${FOLDER}${number}.mjs`]);
    assert.deepEqual({ number, stdout, stderr }, { number, stdout: output, stderr: '' });
    for (const { ask } of [server, ...cluster.servers]) {
      assert.deepEqual(await ask.keys('*'), []);
    }
  }
});
