/** What every error of this package is. Connection errors are not: they come through as the library made them. */
export class LockError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** The lock was not to be had in the time given. Nothing is left behind. */
export class NotAcquired extends LockError {}

/** The lock was lost before it was released: somebody else may have had it in between. */
export class NotHeld extends LockError {}

/** The wait would never have ended; the text says who waits for whom. Release what the others wait for. */
export class Deadlock extends LockError {}

/** Not as many replicas acknowledged the grant as were asked for; the lock is not held. */
export class NoReplicas extends LockError {}

/** Any other error that the server answered. */
export class Refused extends LockError {
  /** Its first word, such as `WRONGTYPE` or `NOPERM`. */
  readonly code: string;

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** The locks of this client have been closed. */
export class Closed extends LockError {}

/** An error reply, as an adapter hands it to the core. Users see what `typed` makes of it. */
export class ServerError extends Error {
  readonly code: string;

  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = message.split(' ', 1)[0] ?? '';
  }
}

/** Errors that say "not here" or "not now": asking again, on a new connection, is right. */
const PASSING = new Set([
  'READONLY', 'UNBLOCKED', 'LOADING', 'CLUSTERDOWN', 'TRYAGAIN', 'MASTERDOWN', 'MOVED', 'ASK',
]);

/** Whether to ask again: after errors that pass, and after every error that is not the server's. */
export function passes(error: unknown): boolean {
  if (error instanceof ServerError) {
    return PASSING.has(error.code);
  }
  return !(error instanceof LockError);
}

/** Whether the server answered that the owner holds nothing there. */
export function isNotHeld(error: unknown): boolean {
  return error instanceof ServerError && error.code === 'NOTHELD';
}

/** What a user is to see of `error`: an error reply as one of the classes above, anything else as it is. */
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
