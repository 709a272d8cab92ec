import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';

const PROCESS = `${hostname()}:${process.pid}:`;

/** An owner's name: LOCK.INFO shows where it is. 80 of the 122 random bits of a UUID, which Node makes in advance. */
export function newOwner(): string {
  const random = randomUUID();
  return `${PROCESS}${random.slice(0, 8)}${random.slice(24)}`;
}

/** Whether this process has made this name. */
export function isOwn(owner: string): boolean {
  return owner.startsWith(PROCESS);
}
