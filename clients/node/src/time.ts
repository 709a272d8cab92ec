/** The longest delay of a timer, 24 days; a longer one would fire at once. */
const LONGEST_MS = 2 ** 31 - 1;

/** The monotonic clock, in ms. */
export function now(): number {
  return performance.now();
}

/** Calls `run` after `ms`; never if that is more than 24 days. It does not keep the process alive. */
export function after(ms: number, run: () => void): NodeJS.Timeout | undefined {
  return ms > LONGEST_MS ? undefined : setTimeout(run, Math.max(ms, 0)).unref();
}

/**
 * Settles as `promise` does, or rejects with the signal's reason as soon as the signal is aborted. Then the result of
 * `promise` is ignored, its rejection too.
 */
export async function unless<T>(signal: AbortSignal, promise: Promise<T>): Promise<T> {
  promise.catch(() => {});
  let ignore = () => {};
  try {
    return await new Promise<T>((resolve, reject) => {
      ignore = onAbort(signal, () => reject(signal.reason as Error));
      promise.then(resolve, reject);
    });
  } finally {
    ignore();
  }
}

/** The functions of onAbort, by signal: it has one listener for them all, because Node warns of more than ten. */
const onAborts = new WeakMap<AbortSignal, { runs: Set<() => void>; listener: () => void }>();

/** Calls `run` once when the signal is aborted, at once if it is already. The result ends that. */
export function onAbort(signal: AbortSignal, run: () => void): () => void {
  if (signal.aborted) {
    run();
    return () => {};
  }
  let entry = onAborts.get(signal);
  if (entry === undefined) {
    const runs = new Set<() => void>();
    entry = { runs, listener: () => runs.forEach((each) => each()) };
    onAborts.set(signal, entry);
    signal.addEventListener('abort', entry.listener);
  }
  const { runs, listener } = entry;
  const own = () => run();
  runs.add(own);
  return () => {
    if (runs.delete(own) && runs.size === 0) {
      onAborts.delete(signal);
      signal.removeEventListener('abort', listener);
    }
  };
}

/**
 * Calls `run` with a signal that is aborted with `signal`, or after `ms` with this error. Settles as `run` does, or
 * rejects as soon as that is aborted.
 */
export async function within<T>(ms: number, signal: AbortSignal, error: () => Error, run: (stop: AbortSignal) => Promise<T>): Promise<T> {
  const stop = new AbortController();
  const timer = after(ms, () => stop.abort(error()));
  const ignore = onAbort(signal, () => stop.abort(signal.reason));
  try {
    return await unless(stop.signal, run(stop.signal));
  } finally {
    ignore();
    clearTimeout(timer);
  }
}

/** Until when a wait lasts. */
export class Deadline {
  /** How long it was to last from the start; 0 is a try. */
  readonly waitMs: number;
  readonly until: number;

  /** Throws for an invalid `waitMs`. */
  constructor(waitMs = Infinity) {
    if (typeof waitMs !== 'number' || !(waitMs >= 0)) {
      throw new RangeError(`waitMs must not be negative, not ${String(waitMs)}`);
    }
    this.waitMs = waitMs;
    this.until = now() + waitMs;
  }

  /** What is left of it, in ms; not less than 0. */
  get leftMs(): number {
    return Math.max(0, this.until - now());
  }
}

/** An AbortController that is created when its signal is first used: it is expensive, and most are never used. */
export class Ending {
  #controller: AbortController | undefined;
  hasEnded = false;
  reason: unknown;

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.hasEnded) {
        this.#controller.abort(this.reason);
      }
    }
    return this.#controller.signal;
  }

  end(reason: unknown): void {
    if (!this.hasEnded) {
      this.hasEnded = true;
      this.reason = reason;
      this.#controller?.abort(reason);
    }
  }
}

/** Waits for `ms`, or until `promise` is settled; never rejects. It keeps the process alive meanwhile. */
export async function atMost(ms: number, promise: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, Math.min(ms, LONGEST_MS));
  });
  await Promise.race([promise.then(() => {}, () => {}), timeout]);
  clearTimeout(timer);
}

/** The first pause, in ms. */
const FIRST_PAUSE_MS = 20;

/** Pauses that grow from 20 to 500 ms. They keep the process alive for `refMs` at most. */
export class Pauses {
  #next: number;
  readonly #refUntil: number;

  constructor(refMs = Infinity, firstMs = FIRST_PAUSE_MS) {
    this.#next = firstMs;
    this.#refUntil = now() + refMs;
  }

  /** Rejects with the signal's reason when that is aborted. `limit` in ms. */
  async wait(signal: AbortSignal, limit = Infinity): Promise<void> {
    const ms = Math.min(this.#next, limit);
    this.#next = Math.min(this.#next * 2, 500);
    let timer: NodeJS.Timeout | undefined;
    const timeout = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, ms);
      now() < this.#refUntil || timer.unref();
    });
    try {
      await unless(signal, timeout);
    } finally {
      clearTimeout(timer);
    }
  }

  reset(): void {
    this.#next = FIRST_PAUSE_MS;
  }
}
