/** The base class of this package's errors. Connection errors are not among them: they are the library's own errors. */
export class LockError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** The lock could not be acquired in time. Nothing is left behind on the server. */
export class NotAcquired extends LockError {}

/** The lock was lost before it was released: another owner may have held it since. */
export class NotHeld extends LockError {}

/**
 * The wait would have closed a cycle; the text names who waits for whom. Release the locks that the others wait for.
 */
export class Deadlock extends LockError {}

/** Fewer replicas acknowledged the grant than requested; the lock is not held. */
export class NoReplicas extends LockError {}

/** Any other error reply of the server. */
export class Refused extends LockError {
  /** The first word of the error, such as `WRONGTYPE` or `NOPERM`. */
  readonly code: string;

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** The locks of this client have been closed. */
export class Closed extends LockError {}

/** An error reply, as an adapter passes it to the core. Users get the result of `typed`. */
export class ServerError extends Error {
  readonly code: string;

  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = message.split(' ', 1)[0] ?? '';
  }
}

/** Transient errors: the command is sent again, on a new connection. */
const PASSING = new Set([
  'READONLY', 'UNBLOCKED', 'LOADING', 'CLUSTERDOWN', 'TRYAGAIN', 'MASTERDOWN', 'MOVED', 'ASK',
]);

/** Whether to send the command again: after transient errors, and after every error that is not the server's. */
export function passes(error: unknown): boolean {
  if (error instanceof ServerError) {
    return PASSING.has(error.code);
  }
  return !(error instanceof LockError);
}

/** Whether the server replied that the owner does not hold the lock. */
export function isNotHeld(error: unknown): boolean {
  return error instanceof ServerError && error.code === 'NOTHELD';
}

/** The error for the user: an error reply as one of the classes above, any other error unchanged. */
export function typed(error: unknown): unknown {
  if (!(error instanceof ServerError)) {
    return error;
  }
  const options = { cause: error.cause };
  switch (error.code) {
    case 'NOTHELD':
      return new NotHeld(error.message, options);
    case 'DEADLOCK':
      return new Deadlock(error.message, options);
    case 'NOREPLICAS':
      return new NoReplicas(error.message, options);
    default:
      return new Refused(error.code, error.message, options);
  }
}
