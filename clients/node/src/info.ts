/** A field of a map in a reply: a library may return a map as an object, a Map, or a flat array. */
function field(reply: unknown, name: string): unknown {
  if (reply instanceof Map) {
    return reply.get(name);
  }
  if (Array.isArray(reply)) {
    const at = reply.findIndex((value, index) => index % 2 === 0 && String(value) === name);
    return at < 0 ? undefined : reply[at + 1];
  }
  return typeof reply === 'object' && reply !== null ? (reply as Record<string, unknown>)[name] : undefined;
}

/** The owners in a reply of LOCK.INFO. */
export function holdersIn(reply: unknown): string[] {
  const holders = field(reply, 'holders');
  return Array.isArray(holders) ? holders.map((holder) => String(field(holder, 'owner'))) : [];
}
