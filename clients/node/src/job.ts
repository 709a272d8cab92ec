/** How consumers of all languages mark the elements of a list: `lock-so:`, how many tries were begun, `:`, the value. */

const MARK = /^lock-so:(\d+):/;

/** More tries than this are not counted: one more is the largest number that is exact. */
const MOST_TRIES = Number.MAX_SAFE_INTEGER - 1;

/** What an element of a list stands for. */
export interface Element {
  value: Buffer;
  /** How many tries were begun. */
  tries: number;
}

/** The mark of an element, and its tries; null without one. */
export function triesOf(element: Buffer): { tries: number; length: number } | null {
  const found = MARK.exec(element.toString('latin1', 0, element.indexOf(':', 'lock-so:'.length) + 1));
  return found === null ? null : { tries: Math.min(Number(found[1]), MOST_TRIES), length: found[0].length };
}

export function parse(element: Buffer): Element {
  const { tries, length } = triesOf(element) ?? { tries: 0, length: 0 };
  return { value: element.subarray(length), tries };
}

export function format({ value, tries }: Element): Buffer {
  return Buffer.concat([Buffer.from(`lock-so:${tries}:`), value]);
}

/** Another list of the consumers, in the slot of this one. */
export function besides(list: string, name: string): string {
  return /^[^{]*\{[^}]+\}/.test(list) ? `${list}:${name}` : `{${list}}:${name}`;
}
