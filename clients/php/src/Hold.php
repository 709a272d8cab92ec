<?php

declare(strict_types=1);

namespace LockSo;

use RedisException;

/**
 * A lock that is held. PHP executes nothing in the background, so a hold that is to outlive its lease must be a
 * session's, or the work must call `keep` now and then. It is released when the last variable that refers to it is
 * gone.
 */
final class Hold
{
    /** Its keys, in their given order. */
    public readonly array $keys;
    /** How many permits of a semaphore. */
    public readonly int $permits;
    /** The name of the owner: host:pid:random. A re-entry has that of the outer hold. */
    public readonly string $owner;
    /** The fencing token, if one was requested. */
    public readonly ?int $token;
    /** @var list<Hold> of a combined lock, or of keys in several slots: the hold of each, as they were acquired; for guard, and tokens */
    public readonly array $holds;
    /** Whether it was lost, as soon as it is released. */
    private ?bool $ended = null;

    /** @internal */
    public function __construct(private Grant $grant)
    {
        $this->keys = $grant->lock->keys;
        $this->permits = $grant->permits;
        $this->owner = $grant->owner;
        $this->token = $grant->token;
        $this->holds = $grant->members;
        $grant->entered++;
    }

    /**
     * Renews the lease from now on, for `$lease` seconds, or as long as the last time. A session is bound to a new connection
     * if it has lost its own. After connection errors this is repeated until the lease expires.
     *
     * @throws NotHeld        if it is lost or was released, or in a fork
     * @throws NoReplicas     if too few replicas acknowledged it; the lease is renewed on the master
     * @throws LockError      if the server refuses
     * @throws RedisException if the server cannot be reached
     */
    public function renew(?float $lease = null): void
    {
        $lease === null || Lock::checkLease($lease);
        $this->checkOwned();
        $this->grant->renew($lease);
    }

    /**
     * Renews the lease if a third of it has elapsed since the last renewal, and otherwise does nothing. For loops, and
     * for waits. A session is bound to a new connection if it has lost its own, which is checked every 0.3 seconds. If
     * the server cannot be reached, this is no error until the lease expires.
     *
     * @throws NotHeld   if it is lost: stop; or if it was released, or in a fork
     * @throws LockError if the server refuses
     */
    public function keep(): void
    {
        $this->keepUntil(INF);
    }

    /**
     * Whether the lock is lost: according to the server, or because the lease has expired by the clock. Never after a
     * release that succeeded. While the server cannot be reached, only the clock counts: one lease from the last
     * confirmation. `$query` false: what is known without a command. A fork knows nothing of the parent's renewals, so
     * there only the server counts.
     */
    public function isLost(bool $query = true): bool
    {
        return $this->isLostBy($query, INF);
    }

    /**
     * Runs a command if the lock is held at that moment, and returns the command's reply: true for a status. The command
     * may be one that a Lua script may call, on keys of the same server; in a cluster of the same slot. Of a multi-key
     * lock the first key is checked. After a lost connection it is not repeated, because it may have been executed.
     *
     * @throws NotHeld        if it is lost or was released, or in a fork; the command has not been run
     * @throws LockError      if the server refuses the command
     * @throws RedisException if there is no reply
     */
    public function guard(string $command, string|int|float ...$arguments): mixed
    {
        $this->checkOwned();
        return $this->grant->guard([$command, ...$arguments]);
    }

    /**
     * Waits until the server reports that the lock is lost, and then returns true at once; false if it is not lost
     * within `$seconds` (null: no limit). For a process that has nothing else to do, such as a fork that watches while
     * the other process works; that process must check the lease by the clock. Of a multi-key lock it watches the first
     * key, or `$key`. A release ends the wait, too.
     *
     * @throws LockError      if the server refuses
     * @throws RedisException if the server cannot be reached when the wait times out
     */
    public function awaitLoss(?float $seconds = null, ?string $key = null): bool
    {
        return $this->grant->awaitLoss($seconds, $key);
    }

    /**
     * Releases the lock. After connection errors this is repeated until the lease expires. A hold that was entered again is
     * released with the last of its holds.
     *
     * @throws NotHeld        if it was lost or released before, or in a fork: it belongs to the parent process
     * @throws LockError      if the server refuses
     * @throws RedisException if the server cannot be reached
     */
    public function release(): void
    {
        $this->releaseWithin(INF);
    }

    /** The same as keep, release and isLost, with limits: within seconds, or until a time by Clock. @internal */
    public function releaseWithin(float $patience): void
    {
        $this->checkOwned();
        $this->end($patience);
    }

    /** @internal */
    public function keepUntil(float $deadline): void
    {
        $this->checkOwned();
        $this->grant->keep($deadline);
    }

    /** @internal */
    public function isLostBy(bool $query, float $deadline): bool
    {
        return $this->ended ?? $this->grant->isLost($query, $deadline);
    }

    /** @internal */
    public function isReleased(): bool
    {
        return $this->ended !== null;
    }

    /** Releases it until `$deadline` (by Clock), or later if that is not possible. It throws nothing. @internal */
    public function giveUp(float $deadline): void
    {
        if ($this->ended === null) {
            $this->ended = false;
            --$this->grant->entered > 0 || $this->grant->giveUp($deadline);
        }
    }

    /** Whether this is the copy in a fork, which does not own the lock. @internal */
    public function isInherited(): bool
    {
        return $this->grant->isInherited();
    }

    /** Releases it within `$patience` seconds, and logs an error, because another one may be being thrown. @internal */
    public function drop(float $patience = INF): void
    {
        try {
            $this->ended !== null || $this->isInherited() || $this->end($patience);
        } catch (LockError | RedisException $trouble) {
            $text = $trouble instanceof LockError ? $trouble->getMessage() : "{$this->grant->lock->named()}: {$trouble->getMessage()}";
            error_log($text . ($trouble instanceof NotHeld ? '' : '; it was not released'));
        }
    }

    /**
     * A re-entry: another hold on the same grant, if this one is held by this process for the same lock.
     *
     * @throws NotHeld if it is lost
     * @internal
     */
    public function again(KeyLock $lock): ?self
    {
        if ($this->ended !== null || $this->grant->isEnding || $this->isInherited() || !$lock->isSameAs($this->grant->lock)) {
            return null;
        }
        !$lock->fenced || $this->token !== null || throw new \InvalidArgumentException('fenced: the outer hold has no token');
        !$this->isLost(query: false) || throw $this->grant->notHeld('the outer hold is lost');
        return new self($this->grant);
    }

    public function __destruct()
    {
        if (!$this->isInherited() && $this->grant->mayBeHeld()) {
            $this->drop(Connections::PATIENCE);
        }
    }

    private function end(float $patience): void
    {
        $lost = null;
        try {
            if ($this->grant->entered === 1) {
                $this->grant->isEnding = true;
                $this->grant->release($patience);
            } elseif ($this->isLost(query: false)) {
                throw $this->grant->notHeld('the outer hold is lost');
            }
            $lost = false;
        } catch (NotHeld $error) {
            $lost = true;
            throw $error;
        } finally {
            // After another error it is not released.
            $this->ended = $lost;
            $this->grant->entered -= $lost === null ? 0 : 1;
        }
    }

    /** A fork that renewed a session would bind it to its own connection, and end it with that. */
    private function checkOwned(): void
    {
        if ($this->ended !== null || $this->isInherited()) {
            throw $this->grant->notHeld($this->ended !== null ? 'it was released before' : 'it belongs to the parent process');
        }
    }
}
