<?php

declare(strict_types=1);

namespace LockSo;

use RedisException;
use Throwable;

/**
 * A lock that is held. PHP executes nothing in the background, so a hold that is to outlive its lease must be a
 * session's, or the work must call `keep` now and then. It is released when the last variable that refers to it is
 * gone.
 */
final class Hold
{
    /** Seconds between two checks of a session's connection: about a third of the default of lock.session-grace. */
    private const GRACE = 0.3;

    /** Its keys, in their given order. */
    public readonly array $keys;
    /** How many permits of a semaphore. */
    public readonly int $permits;
    private bool $released = false;
    private bool $lost = false;
    /** Seconds: the lease of the last renewal. */
    private float $lease;
    /** By Clock: when the last renewal was sent, and when the lease expires. */
    private float $renewed;
    private float $expires;
    private int $pid;

    /** @internal `$sent` is when the granted request was sent. */
    public function __construct(
        private Connections $connections,
        private Lock $lock,
        /** The name of the owner: host:pid:random. */
        public readonly string $owner,
        /** The fencing token, if one was requested. */
        public readonly ?int $token,
        private ?Binding $binding,
        float $sent,
    ) {
        $this->keys = $lock->keys;
        $this->permits = $lock->permits;
        $this->pid = getmypid();
        $this->lease = $lock->lease;
        $connections->holds[$this] = true;
        // The time of the grant is not known. After a long wait the first call of `keep` renews the lease.
        $this->renewed = $sent;
        $now = Clock::now();
        $this->expires = ($now - $sent < $lock->lease / 3 ? $sent : $now) + $lock->lease;
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
        $lease === null || Lock::checkPositive('lease', $lease);
        $this->checkOwned();
        $this->renewUntil($this->end(), $lease ?? $this->lease);
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
        $this->checkOwned();
        $often = $this->binding === null ? INF : self::GRACE;
        if (!$this->lost && Clock::now() < $this->renewed + min($this->lease / 3, $often)) {
            return;
        }
        try {
            $this->lost || $this->renewUntil($this->soon(), $this->lease);
        } catch (RedisException) {
            $this->lost = Clock::now() >= $this->expires;
        } catch (Refused $refused) {
            // After a failover the old master refuses, for as long as its connections stay open.
            $refused->isTransient() || throw $refused;
            $this->lost = Clock::now() >= $this->expires;
        }
        if ($this->lost) {
            throw $this->notHeld();
        }
    }

    /**
     * Whether the lock is lost: according to the server, or because the lease has expired by the clock. Never after a
     * release that succeeded. While the server cannot be reached, only the clock counts: one lease from the last
     * confirmation. `$query` false: what is known without a command. A fork knows nothing of the parent's renewals, so
     * there only the server counts.
     */
    public function isLost(bool $query = true): bool
    {
        if ($this->lost || $this->released) {
            return $this->lost;
        }
        $inherited = $this->isInherited();
        if (!$inherited && $this->binding === null && Clock::now() >= $this->expires) {
            return $this->lost = true;
        }
        if (!$query) {
            return false;
        }
        try {
            $inherited || $this->binding === null ? $this->query() : $this->renewUntil($this->soon(), $this->lease);
        } catch (NotHeld) {
            $this->lost = true;
        } catch (RedisException | LockError) {
            $this->lost = !$inherited && Clock::now() >= $this->expires;
        }
        return $this->lost;
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
        $key ??= $this->keys[0];
        $until = Clock::now() + ($seconds ?? INF);
        $words = function () use ($key, $until): array {
            $block = max(0.001, min($this->connections->maxBlock, $until - Clock::now()));
            $milliseconds = (int) ceil($block * 1000);
            $patience = $this->connections->patience($block + Connections::PATIENCE);
            return [['LOCK.WATCH', $key, $this->owner, 'BLOCK', $milliseconds], $patience];
        };
        return $this->connections->within($until + Connections::TOLERANCE, function () use ($key, $words, $until): bool {
            do {
                $lost = $this->connections->call($key, $words, $until) === true;
            } while (!$lost && Clock::now() < $until);
            return $lost;
        });
    }

    /**
     * Releases the lock. After connection errors this is repeated until the lease expires.
     *
     * @throws NotHeld        if it was lost or released before, or in a fork: it belongs to the parent process
     * @throws LockError      if the server refuses
     * @throws RedisException if the server cannot be reached
     */
    public function release(): void
    {
        $this->checkOwned();
        // What is lost is no longer worth a wait for the server.
        $this->releaseUntil($this->lost ? Clock::now() : $this->end());
    }

    /** Whether this is the copy in a fork, which does not own the lock. @internal */
    public function isInherited(): bool
    {
        return $this->pid !== getmypid();
    }

    /** Releases it within `$patience` seconds, and logs an error, because another one may be being thrown. @internal */
    public function drop(float $patience = INF): void
    {
        try {
            $this->released || $this->isInherited() || $this->releaseUntil(min($this->end(), Clock::now() + $patience));
        } catch (LockError | RedisException $trouble) {
            $text = $trouble instanceof NotHeld ? '' : "{$this->lock->named()} was not released: ";
            error_log($text . $trouble->getMessage());
        }
    }

    public function __destruct()
    {
        if (!$this->isInherited() && ($this->binding !== null || Clock::now() < $this->expires)) {
            $this->drop(Connections::PATIENCE);
        }
    }

    /** A fork that renewed a session would bind it to its own connection, and end it with that. */
    private function checkOwned(): void
    {
        if ($this->released || $this->isInherited()) {
            throw $this->notHeld($this->released ? 'it was released before' : 'it belongs to the parent process');
        }
    }

    /** Until when a command is repeated. */
    private function end(): float
    {
        return $this->binding === null ? $this->expires : Clock::now() + $this->lease;
    }

    /** Until when a check is repeated: it is made once, except for a session, which the server may have kept. */
    private function soon(): float
    {
        return Clock::now() + ($this->binding !== null && Clock::now() >= $this->expires ? self::GRACE : 0.0);
    }

    private function renewUntil(float $until, float $lease): void
    {
        $began = Clock::now();
        try {
            $this->send($this->lock->renewWords($this->owner, $lease), $until);
        } catch (NotHeld) {
            $this->lost = true;
            throw $this->notHeld('the server reported its loss');
        }
        $this->renewed = $began;
        $this->lease = $lease;
        $this->expires = $began + $lease;
    }

    private function releaseUntil(float $until): void
    {
        // If the connection of a session is lost already, the server may have ended the session.
        $connection = $this->binding?->take();
        if ($connection !== null && $connection->isAlive($this->connections->patience(1.0))) {
            $this->binding->connection = $connection;
        }
        try {
            $this->send($this->lock->releaseWords($this->owner), $until);
        } catch (NotHeld) {
            // The first one may have been executed, if it was in time.
            $repeated = $this->connections->unsure && !$this->lost && ($this->binding !== null || Clock::now() < $this->expires);
            $this->lock->kind === Kind::Multi && $this->releaseRest($until);
            $this->released = true;
            if (!$repeated) {
                $this->lost = true;
                throw $this->notHeld();
            }
        } catch (RedisException $trouble) {
            throw $this->lost ? $this->notHeld(cause: $trouble) : $trouble;
        }
        $this->released = true;
        $connection = $this->binding?->take();
        $connection === null || $this->connections->give($connection);
    }

    /** One key of a multi-key lock was lost, so LOCK.MRELEASE released none: releases the others. */
    private function releaseRest(float $until): void
    {
        foreach ($this->keys as $i => $key) {
            try {
                $this->send(['LOCK.RELEASE', $key, $this->owner, ...array_slice($this->lock->modes, $i, 1)], $until);
            } catch (NotHeld) {
                // This key was lost.
            }
        }
    }

    private function notHeld(?string $why = null, ?RedisException $cause = null): NotHeld
    {
        $expired = $this->binding === null && Clock::now() >= $this->expires;
        $why ??= $expired ? 'its lease expired' : 'the server reported its loss';
        return new NotHeld("{$this->lock->named()} is not held: $why", previous: $cause, reason: 'NOTHELD');
    }

    /** @throws NotHeld if it is lost according to the server */
    private function query(): void
    {
        foreach ($this->keys as $key) {
            if ($this->send(['LOCK.WATCH', $key, $this->owner], Clock::now()) === true) {
                throw $this->notHeld('the server reported its loss');
            }
        }
    }

    private function send(array $words, float $until): mixed
    {
        $more = $this->lock->replicaTime();
        // After the lease has expired the reply is of no use, but a release must be sent; a session may still exist, and
        // before that it needs a new connection soon.
        $left = $this->expires - Clock::now();
        $left = $this->binding === null ? $left : min(Connections::PATIENCE, $left > 0.2 ? $left : INF);
        $deadline = max($until, Clock::now() + max(0.2, $left)) + $more;
        return $this->connections->within($deadline, fn () => $this->connections->call(
            $this->keys[0],
            fn () => [$words, $this->connections->patience(Connections::PATIENCE + $more)],
            $until,
            $this->isInherited() ? null : $this->binding,
        ));
    }
}
