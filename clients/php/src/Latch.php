<?php

declare(strict_types=1);

namespace LockSo;

use InvalidArgumentException;
use RedisException;

/**
 * A latch: opens for all that wait when it has been counted down. One that is not set is open. Except for wait, what it does
 * takes 2 seconds at most.
 */
final class Latch
{
    private string $named;

    /** @internal */
    public function __construct(private Connections $connections, public readonly string $key)
    {
        $this->named = "latch \"$key\"";
    }

    /**
     * Closes it, to be counted down `$count` times, whatever it was; with 0 it opens it. After `$lease` seconds it opens in
     * any case. After a lost connection it is not repeated, because it may have been counted down since.
     *
     * @throws LockError      if the server refuses
     * @throws RedisException if there is no reply
     */
    public function set(int $count, ?float $lease = null): void
    {
        $count >= 0 || throw new InvalidArgumentException("count must not be negative, not $count");
        $lease === null || Lock::checkLease($lease);
        $expiry = $lease === null ? [] : ['PX', Clock::milliseconds($lease)];
        $this->connections->request($this->key, ['LATCH.SET', $this->key, $count, ...$expiry], once: true, named: $this->named);
    }

    /**
     * Counts it down `$by`, and returns what is left. After a lost connection it is not repeated, because it may have been
     * counted.
     *
     * @throws LockError      if the server refuses
     * @throws RedisException if there is no reply
     */
    public function countDown(int $by = 1): int
    {
        $by >= 1 || throw new InvalidArgumentException("by must be at least 1, not $by");
        return $this->connections->request($this->key, ['LATCH.DOWN', $this->key, $by], once: true, named: $this->named);
    }

    /**
     * How many times it must still be counted down; 0 if it is open.
     *
     * @throws LockError      if the server refuses
     * @throws RedisException if the server cannot be reached
     */
    public function count(): int
    {
        return max(0, (int) $this->connections->request($this->key, ['GET', $this->key], named: $this->named));
    }

    /**
     * Waits until it is open, `$wait` seconds at most: null has no limit, 0 does not wait. Whether it is open. An outage does
     * not end the wait.
     *
     * @throws LockError      if the server refuses
     * @throws RedisException if the server was never reached, or did not reply at all when `$wait` is 0
     */
    public function wait(?float $wait = null): bool
    {
        Lock::checkWait($wait);
        $until = Clock::now() + ($wait ?? INF);
        $outage = new Outage($this->connections, $this->named);
        try {
            return $this->connections->await($this->key, ['LATCH.WAIT', $this->key], $until, $this->named, $outage) === 1;
        } catch (RedisException | Refused $error) {
            $passes = $error instanceof RedisException || $error->isTransient();
            return $passes && $this->connections->connected && $wait > 0 && Clock::now() >= $until ? false : throw $error;
        }
    }
}
