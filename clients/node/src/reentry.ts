import { AsyncLocalStorage } from 'node:async_hooks';

import type { Spec } from './command.js';
import type { Core } from './core.js';
import type { Keeper } from './keeper.js';

/** A hold that the running body has, and those of the bodies around it. */
interface Scope {
  keeper: Keeper;
  outer: Scope | undefined;
}

const scopes = new AsyncLocalStorage<Scope | undefined>();

/** Calls `body`, in which, and in all that it starts, these holds can be entered again, if their locks are reentrant. */
export function withHolds<T>(keepers: readonly Keeper[], body: () => T): T {
  const reentrant = keepers.filter(({ spec }) => spec.reentrant);
  if (reentrant.length === 0) {
    return body();
  }
  const scope = reentrant.reduce<Scope | undefined>((outer, keeper) => ({ keeper, outer }), scopes.getStore());
  return scopes.run(scope, body);
}

/**
 * Enters the same lock, if a body around the caller holds it. Throws NotHeld if that hold is lost: the lock is never
 * acquired a second time while the code around believes to hold it.
 */
export function enter(core: Core, spec: Spec): Keeper | undefined {
  if (!spec.reentrant) {
    return undefined;
  }
  for (let scope = scopes.getStore(); scope !== undefined; scope = scope.outer) {
    const { keeper } = scope;
    if (keeper.isEntered && isSame(keeper, { core, spec })) {
      return keeper.enter(spec);
    }
  }
  return undefined;
}

/** Whether two locks are the same one, of the same Locks. */
function isSame(one: { core: Core; spec: Spec }, other: { core: Core; spec: Spec }): boolean {
  const nameOf = ({ kind, keys, modes }: Spec) => JSON.stringify([kind, keys, modes]);
  return one.core === other.core && nameOf(one.spec) === nameOf(other.spec);
}
