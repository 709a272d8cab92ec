const { createClient } = require('redis');
const { withLock } = require('lock-so/node-redis');

async function work() {
  const redis = await createClient({ url: process.env.REDIS_URL }).connect();
  await withLock(redis, 'report', () => console.log('working'), { waitMs: 10_000 });
  await redis.close();
}

work();
