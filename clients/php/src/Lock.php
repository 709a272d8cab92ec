<?php

declare(strict_types=1);

namespace LockSo;

use Closure;
use InvalidArgumentException;
use RedisException;
use Throwable;

/** A lock that can be acquired any number of times; Locks and RedLock create it. */
abstract class Lock
{
    /** @internal */
    public function __construct(public readonly array $keys)
    {
        $keys !== [] || throw new InvalidArgumentException('keys must not be empty');
    }

    /**
     * Acquires the lock, and waits for it `$wait` seconds at most: null has no limit, 0 does not wait.
     *
     * @throws NotAcquired    if it could not be acquired in time
     * @throws NotHeld        if it is re-entrant, and the hold that this process has is lost
     * @throws LockError      if the server refuses
     * @throws RedisException if the server was never reached, or did not reply to a try
     */
    public function acquire(?float $wait = null): Hold
    {
        return $this->begin($wait, true);
    }

    /** The same as acquire, but returns null instead of throwing NotAcquired; without an argument it does not wait. */
    public function tryAcquire(?float $wait = 0.0): ?Hold
    {
        try {
            return $this->begin($wait, false);
        } catch (NotAcquired) {
            return null;
        }
    }

    /**
     * Runs `$body` with the hold as its argument while the lock is held, and returns what `$body` returns. An exception
     * of `$body` is thrown unchanged, also if the lock was lost meanwhile.
     *
     * In a fork that was made in `$body` it does not release the lock.
     *
     * @throws NotHeld if the lock was lost before `$body` returned; otherwise as acquire
     */
    public function run(callable $body, ?float $wait = null): mixed
    {
        $hold = $this->acquire($wait);
        try {
            $result = $body($hold);
        } catch (Throwable $error) {
            $hold->drop();
            throw $error;
        }
        $hold->isInherited() || $hold->release();
        return $result;
    }

    /**
     * Whether any owner holds it, or one of its keys; of a semaphore: whether a permit is taken. Like the next two it
     * takes 2 seconds at most.
     *
     * @throws LockError      if the server refuses
     * @throws RedisException if the server cannot be reached
     */
    abstract public function locked(): bool;

    /**
     * Who holds it, and who waits for it: of each key the first ten. The errors are those of locked.
     */
    abstract public function info(): LockInfo;

    /**
     * Takes it away from whoever holds it; true if it was held. For operators: the holder continues to work until it
     * checks its hold. The errors are those of locked; after a lost connection it is not repeated, because it would take
     * the lock away from the next owner, too.
     */
    abstract public function force(): bool;

    /** How texts name it. @internal */
    abstract public function named(): string;

    /**
     * Acquires it until `$until` (by Clock); `$wait` is how long that is, for texts. `$named`: whether the error is to name
     * the holders. `$between` is called before each blocking call, and at least every `$most` seconds.
     *
     * @internal
     */
    abstract public function attempt(?float $wait, float $until, bool $named, ?Closure $between = null, float $most = INF): Hold;

    /** @internal */
    public static function checkPositive(string $name, float $value): void
    {
        $value > 0 || throw new InvalidArgumentException("$name must be greater than 0, not $value");
        $value < INF || throw new InvalidArgumentException("$name must have a limit, not $value");
    }

    /** @internal */
    public static function checkLease(float $lease): void
    {
        self::checkPositive('lease', $lease);
        $lease >= 0.001 || throw new InvalidArgumentException("lease must be at least 1 ms, not $lease s");
    }

    /** @internal */
    public static function checkWait(?float $wait): void
    {
        $wait === null || $wait >= 0 || throw new InvalidArgumentException("wait must not be negative, not $wait");
    }

    private function begin(?float $wait, bool $named): Hold
    {
        self::checkWait($wait);
        try {
            return $this->attempt($wait, Clock::now() + ($wait ?? INF), $named);
        } catch (LockError $error) {
            throw $error->about($this->named());
        }
    }
}
