// A program that must end by itself: leaves.js LIBRARY PORT HOW
import { LIBRARIES } from './libraries.js';

const [library = '', port, how] = process.argv.slice(2);
const locks = LIBRARIES[library]!(Number(port));

async function main(): Promise<void> {
  switch (how) {
    case 'closed': {
      const hold = await locks.lock('closed').acquire();
      hold.signal.throwIfAborted();
      await hold.release();
      await locks.close();
      break;
    }
    case 'released':
      await locks.withLock('released', ({ signal }) => signal.throwIfAborted(), { session: true });
      break;
    case 'held':
      (await locks.lock(`held by ${library}`).acquire()).signal.throwIfAborted();
      break;
    case 'aborted':
      await locks.lock('taken').acquire({ signal: AbortSignal.timeout(50) }).catch(() => {});
      await locks.close();
      break;
  }
  console.log('done');
}

void main();
