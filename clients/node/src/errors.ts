import type { Kind } from './command.js';
import { isOwn } from './owner.js';

/**
 * The base class of this package's errors. Connection errors are not among them: they are the library's own errors.
 */
export class LockError extends Error {
  /** `ETIMEDOUT`, `NOTHELD`, `DEADLOCK`, `NOREPLICAS`, `CLOSED`, or the first word of the server's error reply. */
  readonly code: string;

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** What errors are about: a lock, or another object of this package. */
export type SubjectKind = Kind | 'combined' | 'redlock' | 'latch' | 'queue';

/** What a request or a hold is for. */
export interface Subject {
  kind: SubjectKind;
  /** The keys on the server. */
  keys: readonly string[];
}

/**
 * The lock could not be acquired in time; `code` is ETIMEDOUT, as for other time-outs of Node. Nothing is left behind
 * on the server. If the last attempt failed because of the connection, `cause` is the library's error.
 */
export class NotAcquired extends LockError {
  /** The keys on the server. */
  readonly keys: readonly string[];
  /** The `waitMs` of the request. */
  readonly waitMs: number;
  /** The owners that held the lock just after that time, as far as they are known. */
  readonly holders: readonly string[];

  constructor(subject: Subject, waitMs: number, holders: readonly string[], cause?: unknown) {
    const within = waitMs > 0 ? ` within ${secondsOf(waitMs)} s` : '';
    const held = holders.length > 0 ? `: held by ${listOf(holders.map(described))}` : '';
    const why = cause === undefined ? held : `: ${explained(cause)}`;
    super('ETIMEDOUT', `${nameOfSubject(subject)} was not acquired${within}${why}`, cause === undefined ? {} : { cause: typed(subject, cause) });
    this.keys = subject.keys;
    this.waitMs = waitMs;
    this.holders = holders;
  }
}

/** The lock is not held: it was released before, or lost, and another owner may have held it since. */
export class NotHeld extends LockError {
  /** The keys on the server. */
  readonly keys: readonly string[];

  /** `why` may be empty. */
  constructor(subject: Subject, why: string, options?: ErrorOptions) {
    super('NOTHELD', `${nameOfSubject(subject)} is not held${why === '' ? '' : `: ${why}`}`, options);
    this.keys = subject.keys;
  }
}

/**
 * The wait would have closed a cycle; the text names who waits for whom. Release the locks that the others wait for.
 */
export class Deadlock extends LockError {}

/** Fewer replicas acknowledged the grant than requested; the lock is not held. */
export class NoReplicas extends LockError {}

/** Any other error reply of the server; `code` is its first word, such as `WRONGTYPE` or `NOPERM`. */
export class Refused extends LockError {}

/** The server has not loaded the module; the text has its address. */
export class ModuleMissing extends Refused {}

/** The locks of this client have been closed. */
export class Closed extends LockError {
  constructor(subject: Subject) {
    super('CLOSED', `${nameOfSubject(subject)}: these Locks are closed`);
  }
}

// Literal names, because minifiers rename classes.
for (const [name, type] of Object.entries({ LockError, NotAcquired, NotHeld, Deadlock, NoReplicas, Refused, ModuleMissing, Closed })) {
  type.prototype.name = name;
}

/** The reason why connections end when their Locks are closed. Users get the result of `typed`. */
export const CLOSED = new LockError('CLOSED', 'these Locks are closed');

/** An error reply, as an adapter passes it to the core. Users get the result of `typed`. */
export class ServerError extends Error {
  readonly code: string;
  /** It ends the request, whatever its code is. */
  isFinal = false;

  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = message.split(' ', 1)[0] ?? '';
  }
}

/** Error replies of a server that is not, or not yet, the right one. */
const WRONG_SERVER = ['READONLY', 'UNBLOCKED', 'LOADING', 'CLUSTERDOWN', 'MASTERDOWN'];

/** The reply to a connection that the server refuses. */
const FULL = 'ERR max number of clients';

/** Transient errors: the command is sent again. */
const TRANSIENT = new Set([...WRONG_SERVER, 'TRYAGAIN', 'MOVED', 'ASK']);

/** Whether to send the command again: after transient errors, and after every error that is not the server's. */
export function isTransient(error: unknown): boolean {
  if (error instanceof ServerError) {
    return !error.isFinal && (TRANSIENT.has(error.code) || error.message.startsWith(FULL));
  }
  return !(error instanceof LockError);
}

/** Whether the server redirects to another node of its cluster. */
export function isRedirection(error: unknown): error is ServerError {
  return error instanceof ServerError && (error.code === 'MOVED' || error.code === 'ASK');
}

/** Whether the server replied that it is not, or not yet, the right one. */
export function isWrongServer(error: unknown): boolean {
  return error instanceof ServerError && WRONG_SERVER.includes(error.code);
}

/** Whether the connection on which this error occurred is useless: it is lost, or leads to the wrong server. */
export function endsConnection(error: unknown): boolean {
  return !(error instanceof ServerError) || isWrongServer(error) || error.message.startsWith(FULL);
}

/** Whether the server replied that the owner does not hold the lock. */
export function isNotHeld(error: unknown): boolean {
  return error instanceof ServerError && error.code === 'NOTHELD';
}

/** Whether the server does not know the module's commands. LOCK.GUARD passes on the error of a command of the user's. */
export function isModuleMissing(error: unknown): boolean {
  return error instanceof ServerError && /^ERR unknown command .(LOCK|LATCH|DELAY)\./.test(error.message);
}

/** The error for the user: an error reply as one of the classes above, any other error unchanged. */
export function typed(subject: Subject, error: unknown): unknown {
  if (error === CLOSED) {
    return new Closed(subject);
  }
  if (!(error instanceof ServerError)) {
    return error;
  }
  const { code, message, cause } = error;
  const named = (text: string): [string, string, ErrorOptions] => [code, `${nameOfSubject(subject)}: ${text}`, { cause }];
  if (isModuleMissing(error)) {
    return new ModuleMissing(...named(`unknown command: is lock.so loaded on ${addressOf(error)}?`));
  }
  switch (code) {
    case 'NOTHELD':
      return new NotHeld(subject, '', { cause });
    case 'DEADLOCK':
      return new Deadlock(...named(message));
    case 'NOREPLICAS':
      return new NoReplicas(...named(message));
    default:
      return new Refused(...named(message));
  }
}

/** The address of the server that an error is about. */
const addresses = new WeakMap<object, string>();

/** Records the address of the server that the error is about, for texts, and returns the error. */
export function located(error: unknown, address: string): unknown {
  if (typeof error === 'object' && error !== null) {
    addresses.set(error, address);
  }
  return error;
}

/** That address; empty if it is not known. */
export function addressOf(error: unknown): string {
  return (typeof error === 'object' && error !== null && addresses.get(error)) || '';
}

/** The names in texts. */
export const NAMES: Record<SubjectKind, string> = {
  lock: 'lock',
  fair: 'fair lock',
  read: 'read lock',
  write: 'write lock',
  multi: 'multi-key lock',
  semaphore: 'semaphore',
  combined: 'combined lock',
  redlock: 'RedLock',
  latch: 'latch',
  queue: 'delayed queue',
};

/** The subject in texts: `lock "k"`. */
export function nameOfSubject({ kind, keys }: Subject): string {
  return `${NAMES[kind]} ${keys.map((key) => `"${key}"`).join(', ')}`;
}

/** Milliseconds as seconds, without trailing zeros. */
export function secondsOf(ms: number): string {
  return String(Math.round(ms) / 1000);
}

/** A holder in texts: a program that waits for itself is to find that out. */
function described(owner: string): string {
  return isOwn(owner) ? `${owner} (this process)` : owner;
}

function listOf(names: readonly string[]): string {
  const [first, second, ...others] = names;
  if (others.length === 0) {
    return second === undefined ? `${first}` : `${first} and ${second}`;
  }
  return `${first}, ${second} and ${others.length} other${others.length > 1 ? 's' : ''}`;
}

/** The text of an error about the connection. Node's error for a host with several addresses has none of its own. */
export function textOf(error: unknown): string {
  if (error instanceof AggregateError && error.message === '') {
    return [...new Set(error.errors.map(textOf))].join(', ');
  }
  return error instanceof Error ? error.message || error.name : String(error);
}

/** The text of an error about the connection, with the server's address. */
function explained(error: unknown): string {
  const [text, address] = [textOf(error), addressOf(error)];
  return text.includes(address) ? text : `${text} (${address})`;
}

/** A warning of the process, as `process.on('warning')` gets it. */
export function warn(text: string): void {
  process.emitWarning(text, 'LockWarning');
}
