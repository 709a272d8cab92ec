<?php

declare(strict_types=1);

namespace LockSo\Symfony;

use LockSo\Hold;
use LockSo\Lock;
use LockSo\LockError;
use LockSo\Locks;
use LockSo\NotHeld;
use Redis;
use RedisCluster;
use RedisClusterException;
use RedisException;
use Symfony\Component\Lock\BlockingSharedLockStoreInterface;
use Symfony\Component\Lock\BlockingStoreInterface;
use Symfony\Component\Lock\Exception\InvalidArgumentException;
use Symfony\Component\Lock\Exception\InvalidTtlException;
use Symfony\Component\Lock\Exception\LockAcquiringException;
use Symfony\Component\Lock\Exception\LockConflictedException;
use Symfony\Component\Lock\Exception\LockReleasingException;
use Symfony\Component\Lock\Exception\LockStorageException;
use Symfony\Component\Lock\Key;
use Symfony\Component\Lock\Store\ExpiringStoreTrait;

/**
 * Symfony's locks as read-write locks of lock.so. A lock that waits is granted by the server, in the command that releases
 * it.
 *
 * A key is the lock's resource, with the prefix of the client, if it has one.
 */
final class LockStore implements BlockingStoreInterface, BlockingSharedLockStoreInterface
{
    use ExpiringStoreTrait;

    private Commands $commands;
    private Locks $locks;

    /**
     * `$redis` is connected. The store waits on connections of its own: `$locks`, if `$redis` needs a TLS context, or is a
     * cluster with a password. `$initialTtl`: seconds until a lock expires that is never refreshed. `$session`: a lock
     * lasts as long as the process that acquired it, without a ttl; its key cannot be serialized. `$fenced`: a lock that is
     * acquired to write has a fencing token. `$replicas` [n, seconds]: n replicas must acknowledge each acquisition and each
     * refresh within this time.
     */
    public function __construct(
        Redis|RedisCluster $redis,
        private float $initialTtl = 300.0,
        private bool $session = false,
        private bool $fenced = false,
        private ?array $replicas = null,
        ?Locks $locks = null,
    ) {
        $initialTtl > 0 || throw new InvalidTtlException("initialTtl must be greater than 0, not $initialTtl");
        $this->commands = new Commands($redis, $replicas);
        $this->locks = $locks ?? ($redis instanceof Redis ? Locks::on($redis) : Locks::cluster($redis));
    }

    public function save(Key $key): void
    {
        $this->store($key, Mode::Write, false);
    }

    public function saveRead(Key $key): void
    {
        $this->store($key, Mode::Read, false);
    }

    public function waitAndSave(Key $key): void
    {
        $this->store($key, Mode::Write, true);
    }

    public function waitAndSaveRead(Key $key): void
    {
        $this->store($key, Mode::Read, true);
    }

    public function delete(Key $key): void
    {
        $state = $this->state($key);
        $key->removeState(self::class);
        try {
            $state?->hold?->release();
            $state?->hold || $state && $this->commands->release((string) $key, $state);
        } catch (NotHeld) {
            // It was lost. Lock::isAcquired and Lock::refresh report that.
        } catch (LockError | RedisException | RedisClusterException $error) {
            throw new LockReleasingException($error->getMessage(), 0, $error);
        }
    }

    public function exists(Key $key): bool
    {
        $state = $this->state($key);
        try {
            return $state !== null && !($state->hold?->isLost() ?? $this->commands->isLost((string) $key, $state));
        } catch (LockError | RedisException | RedisClusterException $error) {
            throw new LockStorageException($error->getMessage(), 0, $error);
        }
    }

    /** Of a session it only checks that it is not lost. */
    public function putOffExpiration(Key $key, float $ttl): void
    {
        $state = $this->state($key) ?? throw new LockConflictedException("\"$key\" is not held");
        try {
            if ($state->hold !== null) {
                $state->hold->keep();
                return;
            }
            $key->reduceLifetime($ttl);
            $this->commands->renew((string) $key, $state, $ttl);
        } catch (NotHeld $error) {
            throw new LockConflictedException($error->getMessage(), 0, $error);
        } catch (LockError | RedisException | RedisClusterException $error) {
            throw new LockStorageException($error->getMessage(), 0, $error);
        }
        $this->checkNotExpired($key);
    }

    /** The fencing token of a lock that is held to write, if the store was created with `fenced`. */
    public function token(Key $key): ?int
    {
        return $this->state($key)?->token;
    }

    private function store(Key $key, Mode $mode, bool $waits): void
    {
        try {
            $this->session ? $this->storeSession($key, $mode, $waits) : $this->storeLease($key, $mode, $waits);
        } catch (LockError | RedisException | RedisClusterException $error) {
            throw new LockAcquiringException($error->getMessage(), 0, $error);
        }
        $this->checkNotExpired($key);
    }

    private function storeSession(Key $key, Mode $mode, bool $waits): void
    {
        $state = $this->state($key);
        if ($state !== null && !$state->hold->isLost()) {
            $state->mode === $mode || throw new InvalidArgumentException('a session cannot change between reading and writing');
            return;
        }
        $hold = $this->acquire($key, $mode, $waits, true);
        $key->markUnserializable();
        $key->setState(self::class, new State($hold->owner, $mode, $hold->token, $hold));
    }

    private function storeLease(Key $key, Mode $mode, bool $waits): void
    {
        $name = (string) $key;
        for ($held = $this->state($key); ; usleep(100_000)) {
            $key->reduceLifetime($this->initialTtl);
            $state = $this->commands->acquire($name, $mode, $this->initialTtl, $this->isFenced($mode), $held?->owner);
            if ($state !== null) {
                break;
            }
            $waits || throw new LockConflictedException();
            if ($held !== null && !$this->commands->isLost($name, $held)) {
                // Only this owner may change from reading to writing, and the package waits as a new owner.
                $key->resetLifetime();
                continue;
            }
            $held = null;
            $key->resetLifetime();
            $hold = $this->acquire($key, $mode, true, false);
            $key->reduceLifetime($this->initialTtl);
            $state = new State($hold->owner, $mode, $hold->token);
            if ($this->commands->adopt($name, $state, $this->initialTtl, $hold)) {
                break;
            }
        }
        $key->setState(self::class, $state);
        if ($held !== null && $held->mode !== $mode) {
            $this->commands->release($name, $held);
        }
    }

    private function acquire(Key $key, Mode $mode, bool $waits, bool $session): Hold
    {
        $lock = $this->lock($this->commands->name((string) $key), $mode, $session);
        return ($waits ? $lock->acquire() : $lock->tryAcquire()) ?? throw new LockConflictedException();
    }

    private function lock(string $name, Mode $mode, bool $session): Lock
    {
        $options = ['replicas' => $this->replicas] + ($session ? ['session' => true] : ['lease' => $this->initialTtl]);
        return $mode === Mode::Read
            ? $this->locks->read($name, ...$options)
            : $this->locks->write($name, ...$options, fenced: $this->fenced);
    }

    private function isFenced(Mode $mode): bool
    {
        return $this->fenced && $mode === Mode::Write;
    }

    private function state(Key $key): ?State
    {
        return $key->hasState(self::class) ? $key->getState(self::class) : null;
    }
}
