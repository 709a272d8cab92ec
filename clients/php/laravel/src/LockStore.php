<?php

declare(strict_types=1);

namespace LockSo\Laravel;

use Illuminate\Cache\RedisStore;
use Illuminate\Redis\Connections\PhpRedisConnection;
use InvalidArgumentException;
use LockSo\Locks;
use RedisCluster;

/**
 * Laravel's store in Redis, whose locks are those of lock.so. A lock's key is its name with the prefix of the store, not
 * with that of the connection.
 */
class LockStore extends RedisStore
{
    private ?Locks $locks = null;

    /** With what to wait, if the connection needs a TLS context, or is a cluster with a password. */
    public function setLocks(?Locks $locks): static
    {
        $this->locks = $locks;
        return $this;
    }

    /**
     * @param  string  $name
     * @param  int  $seconds  0: without a limit
     * @param  string|null  $owner
     * @return DistributedLock
     */
    public function lock($name, $seconds = 0, $owner = null)
    {
        $connection = $this->lockConnection();
        if (!$connection instanceof PhpRedisConnection) {
            throw new InvalidArgumentException('locks need the client phpredis: config database.redis.client');
        }
        $client = $connection->client();
        $this->locks ??= $client instanceof RedisCluster ? Locks::cluster($client) : Locks::on($client);
        return new DistributedLock($this->locks, $connection, $this->prefix . $name, $seconds, $owner);
    }
}
