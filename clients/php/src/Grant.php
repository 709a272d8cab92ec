<?php

declare(strict_types=1);

namespace LockSo;

use RedisException;

/** What was granted to an owner; each acquisition, and each re-entry, has a Hold on it. @internal */
abstract class Grant
{
    /** How many holds on it have not been released. */
    public int $entered = 0;
    /** Whether its release was begun: it may have been executed, even if it has failed. */
    public bool $isEnding = false;
    private int $pid;

    public function __construct(
        public readonly string $owner,
        public readonly ?int $token,
        public readonly Lock $lock,
        public readonly int $permits = 1,
        /** @var list<Hold> of a combination: what it consists of */
        public readonly array $members = [],
    ) {
        $this->pid = getmypid();
    }

    /** Whether this is the copy in a fork, which does not own the lock. */
    public function isInherited(): bool
    {
        return $this->pid !== getmypid();
    }

    /** As Hold::renew. */
    abstract public function renew(?float $lease): void;

    /** As Hold::keep, but not beyond `$deadline` (by Clock). */
    abstract public function keep(float $deadline = INF): void;

    /** As Hold::isLost, but not beyond `$deadline` (by Clock). */
    abstract public function isLost(bool $query, float $deadline = INF): bool;

    /**
     * As Hold::release, within `$patience` seconds.
     *
     * @throws NotHeld|LockError|RedisException
     */
    abstract public function release(float $patience): void;

    /** Releases it until `$deadline` (by Clock), or later if that is not possible; it throws nothing. */
    abstract public function giveUp(float $deadline): void;

    /** As Hold::awaitLoss. */
    abstract public function awaitLoss(?float $seconds, ?string $key): bool;

    /** As Hold::guard. */
    abstract public function guard(array $words): mixed;

    /** Whether the server may still have it. */
    abstract public function mayBeHeld(): bool;

    public function notHeld(string $why, ?\Throwable $cause = null): NotHeld
    {
        return new NotHeld("{$this->lock->named()} is not held: $why", 0, $cause, 'NOTHELD', $this->lock->keys);
    }
}
