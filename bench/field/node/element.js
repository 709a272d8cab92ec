// What is pushed: a letter, when it is due (unix ms), and padding up to 64 bytes.

const BYTES = 64;

// Date.now() has whole milliseconds only, and performance.timeOrigin drifts away from it.
let before = Date.now();
while (Date.now() === before);
const offset = Date.now() - performance.now();

const nowMs = () => offset + performance.now();

const make = (letter, dueMs) => `${letter} ${dueMs.toFixed(3)} `.padEnd(BYTES, 'x');

const lateMs = (element, now) => now - Number(element.split(' ')[1]);

module.exports = { nowMs, make, lateMs };
