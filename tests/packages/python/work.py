import os

import redis
from lock_so import Locks

with Locks(redis.Redis.from_url(os.environ["REDIS_URL"])).lock("report", wait=10):
    print("working")
