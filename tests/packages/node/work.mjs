import { Redis } from 'ioredis';
import { withLock } from 'lock-so/ioredis';

const redis = new Redis(process.env.REDIS_URL);
await withLock(redis, 'report', () => console.log('working'), { waitMs: 10_000 });
await redis.quit();
