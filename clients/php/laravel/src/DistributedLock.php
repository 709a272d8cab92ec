<?php

declare(strict_types=1);

namespace LockSo\Laravel;

use Illuminate\Cache\Lock;
use Illuminate\Contracts\Cache\LockTimeoutException;
use Illuminate\Redis\Connections\PhpRedisConnection;
use InvalidArgumentException;
use LockSo\Hold;
use LockSo\LockError;
use LockSo\Locks;
use LockSo\NotAcquired;
use LockSo\NotHeld;
use RedisCluster;
use RedisClusterException;
use RedisException;
use Throwable;

/**
 * A lock of lock.so as Laravel's. It is held by the name of its owner, also by another process, until it is released or its
 * seconds have elapsed. With a callback it is held by the package: without seconds for as long as the process lives.
 */
final class DistributedLock extends Lock
{
    /** Seconds that stand for no limit: 100 years. */
    private const FOREVER = 3155760000;

    private ?Hold $hold = null;
    private bool $isSession = false;
    /** Whether no request was granted to this owner, so that a repeated one is the same. */
    private bool $isNew;
    /** The options of `with`. */
    private array $options = [];

    /** `$given`: the name of the owner, if it is not to be a new one. */
    public function __construct(
        private Locks $locks,
        private PhpRedisConnection $connection,
        string $name,
        $seconds,
        private ?string $given = null,
    ) {
        $this->isNew = $given === null;
        // host:pid:random, as the package names its owners.
        $own = str_replace(':', '_', gethostname()) . ':' . getmypid() . ':' . bin2hex(random_bytes(8));
        parent::__construct($name, $seconds, $given ?? $own);
    }

    /**
     * Options of the package's locks. `session`: it is held for as long as the process lives, whatever the seconds are.
     * `fair`: strictly first come, first served. `fenced`, `replicas`: as there. With any of them the lock is released when
     * this object is gone.
     */
    public function with(bool $session = false, bool $fair = false, bool $fenced = false, ?array $replicas = null): static
    {
        $this->given === null || throw new InvalidArgumentException('owner: not with options');
        $this->options = array_filter(compact('session', 'fair', 'fenced', 'replicas'));
        return $this;
    }

    /** The package's hold, while a callback runs or with options: for `token`, `keep`, `isLost`, `guard`. */
    public function hold(): ?Hold
    {
        return $this->hold;
    }

    /** Tries to acquire it. @return bool */
    public function acquire()
    {
        if ($this->options !== []) {
            return $this->enter(0.0, false, false);
        }
        $holds = $this->send('LOCK.ACQUIRE', $this->owner, 'PX', $this->lease($this->seconds) * 1000, ...($this->isNew ? ['ONCE'] : []));
        if ($holds > 1) {
            // The owner holds it already, which Laravel considers a failure.
            $this->send('LOCK.RELEASE', $this->owner);
        }
        $this->isNew = $this->isNew && $holds !== 1;
        return $holds === 1;
    }

    /** @return mixed */
    public function get($callback = null)
    {
        if (!is_callable($callback) || $this->given !== null) {
            return parent::get($callback);
        }
        return $this->enter(0.0, true, false) ? $this->run($callback) : false;
    }

    /**
     * Waits for the lock. With an owner of your own it polls, as Laravel does.
     *
     * @param  int|float  $seconds
     * @return mixed
     * @throws LockTimeoutException
     */
    public function block($seconds, $callback = null)
    {
        if ($this->given !== null) {
            return parent::block($seconds, $callback);
        }
        $this->enter(max(0.0, (float) $seconds), is_callable($callback), true);
        if (is_callable($callback)) {
            return $this->run($callback);
        }
        $this->options !== [] || $this->handOver();
        return true;
    }

    /** False if it was lost or released before. @return bool */
    public function release()
    {
        [$hold, $this->hold] = [$this->hold, null];
        try {
            $hold === null ? $this->send('LOCK.RELEASE', $this->owner) : $hold->release();
            return true;
        } catch (NotHeld) {
            return false;
        }
    }

    /** @return void */
    public function forceRelease()
    {
        $this->hold === null || $this->release();
        $this->send('LOCK.FORCE');
    }

    /** Another lease from now on; of a session it only checks that it is not lost. False if it is. @return bool */
    public function refresh($seconds = null)
    {
        $lease = $this->lease($seconds ?? $this->seconds);
        try {
            match (true) {
                $this->hold === null => $this->send('LOCK.RENEW', $this->owner, 'PX', $lease * 1000),
                $this->isSession => $this->hold->keep(),
                default => $this->hold->renew($lease),
            };
            return true;
        } catch (NotHeld) {
            return false;
        }
    }

    /** The name of the connection, as RedisLock has it. @return string */
    public function getConnectionName()
    {
        return $this->connection->getName();
    }

    /** @return string|null */
    protected function getCurrentOwner()
    {
        return ($this->locks->lock($this->name)->info()->holders[0] ?? null)?->owner;
    }

    private function lease(mixed $seconds): int
    {
        return $seconds > 0 ? (int) ceil((float) $seconds) : self::FOREVER;
    }

    /** Acquires the package's lock. If that is not possible, it throws, or returns false. */
    private function enter(float $wait, bool $hasCallback, bool $throws): bool
    {
        $session = isset($this->options['session']) || $hasCallback && $this->seconds <= 0;
        $options = $session ? ['session' => true] : ['lease' => $this->lease($this->seconds)];
        $options += array_diff_key($this->options, ['fair' => true]);
        $kind = isset($this->options['fair']) ? $this->locks->fair(...) : $this->locks->lock(...);
        try {
            $hold = $throws ? $kind($this->name, ...$options)->acquire($wait) : $kind($this->name, ...$options)->tryAcquire();
        } catch (NotAcquired $error) {
            throw new LockTimeoutException($error->getMessage(), 0, $error);
        }
        if ($hold !== null) {
            [$this->hold, $this->isSession, $this->owner, $this->isNew] = [$hold, $session, $hold->owner, false];
        }
        return $hold !== null;
    }

    /** As Laravel: if the lock was lost meanwhile, that is no error. It is logged. */
    private function run(callable $callback): mixed
    {
        try {
            $result = $callback();
        } catch (Throwable $error) {
            try {
                $this->hold === null || $this->release();
            } catch (LockError | RedisException $second) {
                error_log($second->getMessage());
            }
            throw $error;
        }
        if ($this->hold !== null && !$this->release()) {
            error_log("lock \"$this->name\" was lost while its callback ran");
        }
        return $result;
    }

    /** Adds a hold to that of the package, which releases its own one: then only the owner's name holds it. */
    private function handOver(): void
    {
        $holds = $this->send('LOCK.ACQUIRE', $this->owner, 'PX', $this->lease($this->seconds) * 1000);
        $released = $this->release();
        $released && $holds === 2 || throw new LockTimeoutException("lock \"$this->name\" was lost as soon as it was acquired");
    }

    /** Sends a short command on the program's connection, and returns the reply. */
    private function send(string $command, string|int ...$arguments): mixed
    {
        $words = [$command, $this->name, ...$arguments];
        $client = $this->connection->client();
        $client->clearLastError();
        try {
            $reply = $this->connection->command('rawCommand', $client instanceof RedisCluster ? [$this->name, ...$words] : $words);
        } catch (RedisException | RedisClusterException $trouble) {
            // php-redis throws some error replies, and returns false for others.
            $reply = $client->getLastError() === null ? throw $trouble : false;
        }
        $error = $client->getLastError();
        $reason = $error === null ? '' : strtok($error, ' ');
        return match (true) {
            $error === null => $reply,
            $reason === 'NOTHELD' => throw new NotHeld("lock \"$this->name\" is not held", reason: $reason, keys: [$this->name]),
            default => throw LockError::of($error)->about("lock \"$this->name\""),
        };
    }
}
