<?php

declare(strict_types=1);

namespace LockSo;

use RedisException;
use Throwable;

/**
 * A lock that is held. PHP does nothing in the background, so a hold that is to outlive its lease is a session's, or the
 * work calls `keep` now and then. One that is forgotten is released when the last variable with it goes.
 */
final class Hold
{
    /** A third of the default of lock.session-grace: seconds after which to look whether a session has its connection. */
    private const GRACE = 0.3;

    /** What has gone wrong in a release that was not to throw, because another error was on its way; or null. */
    public ?Throwable $trouble = null;
    /** Its keys, in the order in which they were given. */
    public readonly array $keys;
    /** How many permits of a semaphore. */
    public readonly int $permits;
    private bool $released = false;
    private bool $lost = false;
    /** By Clock: when the last request that has prolonged it was sent, and when the lease is over. */
    private float $renewed;
    private float $expires;
    private int $pid;

    /** @internal `$asked` is when the request was sent that got it. */
    public function __construct(
        private Connections $connections,
        private Lock $lock,
        /** The name that holds the lock: a random UUID. */
        public readonly string $owner,
        /** The fencing token, if one was asked for. */
        public readonly ?int $token,
        private ?Binding $binding,
        float $asked,
    ) {
        $this->keys = $lock->keys;
        $this->permits = $lock->permits;
        $this->pid = getmypid();
        // Granted at any time since, so the first renewal comes early rather than late.
        $this->renewed = $asked;
        $this->expires = Clock::now() + $lock->lease;
    }

    /**
     * Gives the lock a new lease from now: its own, or `$lease` seconds. A session is bound to a new connection, if it has
     * lost its own. Over connection errors it is tried again until the lease is over.
     *
     * @throws NotHeld        if it is lost
     * @throws NoReplicas     if replicas were asked for; the lease stands on the master
     * @throws LockError      if the server refuses
     * @throws RedisException if the server is out of reach
     */
    public function renew(?float $lease = null): void
    {
        $this->renewUntil($this->end(), $lease);
    }

    /**
     * Renews the lease if a third of it is over since it was renewed last: costs nothing otherwise. For loops, and waits. A
     * session is bound to a new connection if it has lost its own, which is looked for each 0.3 seconds.
     * A server that is out of reach for a while is no error before the lease is over.
     *
     * @throws NotHeld   if it is lost: stop
     * @throws LockError if the server refuses
     */
    public function keep(): void
    {
        $often = $this->binding === null ? INF : self::GRACE;
        if (!$this->lost && Clock::now() < $this->renewed + min($this->lock->lease / 3, $often)) {
            return;
        }
        try {
            $this->lost || $this->renewUntil($this->soon());
        } catch (RedisException) {
            $this->lost = Clock::now() >= $this->expires;
        }
        if ($this->lost) {
            throw new NotHeld('the lease is over, or the session: out of reach');
        }
    }

    /**
     * Whether the lock is lost: by the server's word, or because the lease is over by the clock. Never after a release that
     * has gone well. While the server is out of reach the clock alone counts: a lease from the last time that it was heard of.
     * `$ask` false: what is known without asking.
     */
    public function isLost(bool $ask = true): bool
    {
        if ($this->lost || $this->released) {
            return $this->lost;
        }
        if ($this->binding === null && Clock::now() >= $this->expires) {
            return $this->lost = true;
        }
        if (!$ask) {
            return false;
        }
        try {
            $this->binding === null ? $this->look() : $this->renewUntil($this->soon());
        } catch (NotHeld) {
            $this->lost = true;
        } catch (RedisException | LockError) {
            $this->lost = Clock::now() >= $this->expires;
        }
        return $this->lost;
    }

    /**
     * Waits until the lock is lost by the server's word, however: true then, at once; false if it is not within `$seconds`
     * (null: waits for ever). For a process that has nothing else to do, such as a fork that watches while the other works: the
     * clock is the other's. Of several keys it watches the first, or `$key`. A release ends it too.
     *
     * @throws LockError      if the server refuses
     * @throws RedisException if the server is out of reach when the time is over
     */
    public function awaitLoss(?float $seconds = null, ?string $key = null): bool
    {
        $key ??= $this->keys[0];
        $until = Clock::now() + ($seconds ?? INF);
        $words = function () use ($key, $until): array {
            $block = max(0.001, min($this->connections->maxBlock, $until - Clock::now()));
            $milliseconds = (int) ceil($block * 1000);
            return [['LOCK.WATCH', $key, $this->owner, 'BLOCK', $milliseconds], $block + Connections::PATIENCE];
        };
        do {
            $lost = $this->connections->call($key, $words, $until) === true;
        } while (!$lost && Clock::now() < $until);
        return $lost;
    }

    /**
     * Releases the lock. Over connection errors it is tried again until the lease is over. Once it is released, nothing
     * happens when it is called again.
     *
     * @throws NotHeld        if it was lost before
     * @throws LockError      if the server refuses
     * @throws RedisException if the server is out of reach
     */
    public function release(): void
    {
        $this->released || $this->releaseUntil($this->end());
    }

    /** Releases it within `$patience` seconds, and notes in `trouble` what goes wrong. @internal */
    public function drop(float $patience = INF): void
    {
        try {
            $this->released || $this->releaseUntil(min($this->end(), Clock::now() + $patience));
        } catch (LockError | RedisException $trouble) {
            $this->trouble = $trouble;
        }
    }

    public function __destruct()
    {
        // A fork has a copy, and the lock is not its own.
        if ($this->pid === getmypid() && ($this->binding !== null || Clock::now() < $this->expires)) {
            $this->drop(Connections::PATIENCE);
        }
    }

    /** Until when it is worth asking again. */
    private function end(): float
    {
        return $this->binding === null ? $this->expires : Clock::now() + $this->lock->lease;
    }

    /** Until when to ask in between: once, but for a session that the server has kept all the while. */
    private function soon(): float
    {
        return Clock::now() + ($this->binding !== null && Clock::now() >= $this->expires ? self::GRACE : 0.0);
    }

    private function renewUntil(float $until, ?float $lease = null): void
    {
        $began = Clock::now();
        try {
            foreach ($this->keys as $key) {
                $this->ask(['LOCK.RENEW', $key, $this->owner, ...$this->lock->leaseWords($lease)], $until);
            }
        } catch (NotHeld $lost) {
            $this->lost = true;
            throw $lost;
        }
        $this->renewed = $began;
        $this->expires = $began + ($lease ?? $this->lock->lease);
    }

    private function releaseUntil(float $until): void
    {
        try {
            $this->ask($this->lock->releaseWords($this->owner), $until);
        } catch (NotHeld $lost) {
            // The first one may have got through, if it was in time.
            $repeated = $this->connections->unsure && !$this->lost && ($this->binding !== null || Clock::now() < $this->expires);
            $this->lock->kind === Kind::Multi && $this->releaseRest($until);
            $this->released = true;
            if (!$repeated) {
                $this->lost = true;
                throw $lost;
            }
        }
        $this->released = true;
        $connection = $this->binding?->take();
        $connection === null || $this->connections->give($connection);
    }

    /** Of several locks one was lost, so none was released. */
    private function releaseRest(float $until): void
    {
        foreach ($this->keys as $key) {
            try {
                $this->ask(['LOCK.RELEASE', $key, $this->owner], $until);
            } catch (NotHeld) {
                // It was this one.
            }
        }
    }

    /** @throws NotHeld if it is lost by the server's word */
    private function look(): void
    {
        foreach ($this->keys as $key) {
            if ($this->ask(['LOCK.WATCH', $key, $this->owner], Clock::now()) === true) {
                throw new NotHeld("$key: lost");
            }
        }
    }

    private function ask(array $words, float $until): mixed
    {
        return $this->connections->call($this->keys[0], function () use ($words): array {
            // When the lease is over the answer is of no use any more, but a release has to be sent; a session may live still.
            $left = $this->expires - Clock::now();
            $left = $left <= 0.2 && $this->binding !== null ? Connections::PATIENCE : max(0.2, min(Connections::PATIENCE, $left));
            return [$words, $left + $this->lock->replicaTime()];
        }, $until, $this->binding);
    }
}
