import assert from 'node:assert/strict';
import { test } from 'node:test';

import { acquire, cancel, release, renew, specOf, watch, type Kind, type LockOptions } from '../src/command.js';

interface Row {
  kind: Kind;
  keys?: string[];
  options?: LockOptions;
  limit?: number;
  says: string;
  gives: string;
  ends: string;
}

const ROWS: Row[] = [
  { kind: 'lock', says: 'LOCK.ACQUIRE k me PX 30000 BLOCK 5 ONCE', gives: 'LOCK.RELEASE k me', ends: 'LOCK.CANCEL k me RELEASE' },
  { kind: 'fair', says: 'LOCK.FAIR k me PX 30000 BLOCK 5 ONCE', gives: 'LOCK.RELEASE k me', ends: 'LOCK.CANCEL k me RELEASE' },
  {
    kind: 'read',
    options: { leaseMs: 70 },
    says: 'LOCK.RWREAD k me PX 70 BLOCK 5 ONCE',
    gives: 'LOCK.RELEASE k me READ',
    ends: 'LOCK.CANCEL k me RELEASE READ',
  },
  {
    kind: 'write',
    options: { fenced: true },
    says: 'LOCK.RWWRITE k me PX 30000 BLOCK 5 FENCED ONCE',
    gives: 'LOCK.RELEASE k me WRITE',
    ends: 'LOCK.CANCEL k me RELEASE WRITE',
  },
  {
    kind: 'multi',
    keys: ['k', 'l'],
    options: { session: true },
    says: 'LOCK.MACQUIRE 2 k l me SESSION BLOCK 5 ONCE',
    gives: 'LOCK.MRELEASE 2 k l me',
    ends: 'LOCK.CANCEL k me',
  },
  {
    kind: 'semaphore',
    options: { permits: 2, replicas: { count: 1, ms: 9 } },
    limit: 3,
    says: 'LOCK.SEMAPHORE k me 3 PERMITS 2 PX 30000 BLOCK 5 ONCE REPLICAS 1 9',
    gives: 'LOCK.RELEASE k me PERMITS 2',
    ends: 'LOCK.CANCEL k me RELEASE PERMITS 2',
  },
];

for (const { kind, keys = ['k'], options = {}, limit, says, gives, ends } of ROWS) {
  test(`the commands of a ${kind} lock`, () => {
    const spec = specOf(kind, keys, options, limit);
    assert.equal(acquire(spec, 'me', 5).join(' '), says);
    assert.equal(release(spec, 'me').join(' '), gives);
    assert.equal(cancel(spec, 'me').join(' '), ends);
  });
}

test('a try has no BLOCK, a wait for ever has BLOCK 0', () => {
  const spec = specOf('lock', ['k'], {});
  assert.ok(!acquire(spec, 'me', null).includes('BLOCK'));
  assert.match(acquire(spec, 'me', 0).join(' '), /BLOCK 0 /);
});

test('a renewal says the lease, and the replicas', () => {
  const replicas = { count: 2, ms: 30 };
  assert.equal(renew(specOf('lock', ['k'], { leaseMs: 9, replicas }), 'k', 'me').join(' '), 'LOCK.RENEW k me PX 9 REPLICAS 2 30');
  assert.equal(renew(specOf('lock', ['k'], { session: true }), 'k', 'me').join(' '), 'LOCK.RENEW k me SESSION');
  assert.equal(watch('k', 'me', 7).join(' '), 'LOCK.WATCH k me BLOCK 7');
});

test('what could never be right is refused at once', () => {
  assert.throws(() => specOf('read', ['k'], { fenced: true }), TypeError);
  assert.throws(() => specOf('multi', [], {}), TypeError);
  for (const leaseMs of [0, -1, 1.5, Number.NaN, Infinity]) {
    assert.throws(() => specOf('lock', ['k'], { leaseMs }), RangeError);
  }
});
