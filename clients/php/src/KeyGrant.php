<?php

declare(strict_types=1);

namespace LockSo;

use Closure;
use InvalidArgumentException;
use RedisException;

/** A grant of one server. @internal */
final class KeyGrant extends Grant
{
    /** Seconds between two checks of a session's connection: about a third of the default of lock.session-grace. */
    private const GRACE = 0.3;
    private const REPORTED = 'the server reported its loss';

    private bool $lost = false;
    /** Seconds: the lease of the last renewal. */
    private float $lease;
    /** By Clock: when the last renewal was sent, and when the lease expires. */
    private float $renewed;
    private float $expires;

    /** `$sent` is when the granted request was sent. */
    public function __construct(
        private Connections $connections,
        private KeyLock $of,
        string $owner,
        ?int $token,
        private ?Binding $binding,
        float $sent,
    ) {
        parent::__construct($owner, $token, $of, $of->permits);
        $this->lease = $of->lease;
        // The time of the grant is not known. After a long wait the first call of `keep` renews the lease.
        $this->renewed = $sent;
        $now = Clock::now();
        $this->expires = ($now - $sent < $of->lease / 3 ? $sent : $now) + $of->lease;
    }

    public function renew(?float $lease): void
    {
        if ($lease !== null && $this->of->session) {
            throw new InvalidArgumentException('lease: a session has none');
        }
        !$this->lost || throw $this->loss();
        $lease ??= $this->lease;
        $this->renewUntil(min($this->end(), Clock::now() + $lease), $lease);
    }

    public function keep(float $deadline = INF): void
    {
        $often = $this->binding === null ? INF : self::GRACE;
        if (!$this->lost && Clock::now() < $this->renewed + min($this->lease / 3, $often)) {
            return;
        }
        try {
            $this->lost || $this->connections->within($deadline, fn () => $this->renewUntil($this->soon(), $this->lease));
        } catch (RedisException) {
            $this->lost = Clock::now() >= $this->expires;
        } catch (Refused $refused) {
            // After a failover the old master refuses, for as long as its connections stay open.
            $refused->isTransient() || throw $refused;
            $this->lost = Clock::now() >= $this->expires;
        }
        if ($this->lost) {
            throw $this->loss();
        }
    }

    public function isLost(bool $query, float $deadline = INF): bool
    {
        if ($this->lost) {
            return true;
        }
        $inherited = $this->isInherited();
        if (!$inherited && $this->binding === null && Clock::now() >= $this->expires) {
            return $this->lost = true;
        }
        if (!$query) {
            return false;
        }
        try {
            $isLease = $inherited || $this->binding === null;
            $check = fn () => $isLease ? $this->query() : $this->renewUntil($this->soon(), $this->lease);
            $this->connections->within($deadline, $check);
        } catch (NotHeld) {
            $this->lost = true;
        } catch (RedisException | LockError) {
            $this->lost = !$inherited && Clock::now() >= $this->expires;
        }
        return $this->lost;
    }

    public function awaitLoss(?float $seconds, ?string $key): bool
    {
        $key ??= $this->lock->keys[0];
        $until = Clock::now() + ($seconds ?? INF);
        return $this->connections->await($key, ['LOCK.WATCH', $key, $this->owner], $until, $this->lock->named()) === true;
    }

    public function guard(array $words): mixed
    {
        !$this->isLost(query: false) || throw $this->loss();
        $key = $this->lock->keys[0];
        try {
            $words = ['LOCK.GUARD', $key, $this->owner, ...$words];
            return $this->connections->request($key, $words, once: true, named: $this->lock->named());
        } catch (NotHeld $error) {
            $this->lost = true;
            throw $this->notHeld(self::REPORTED, $error);
        }
    }

    public function release(float $patience): void
    {
        // What is lost is no longer worth a wait for the server.
        $until = $this->lost ? Clock::now() : min($this->end(), Clock::now() + $patience);
        // If the connection of a session is lost already, the server may have ended the session.
        $connection = $this->binding?->take();
        if ($connection !== null && $connection->isAlive($this->connections->patience(1.0))) {
            $this->binding->connection = $connection;
        }
        try {
            $this->send($this->of->releaseWords($this->owner), $until);
        } catch (NotHeld) {
            // The first one may have been executed, if it was in time.
            $repeated = $this->connections->unsure && !$this->lost && $this->mayBeHeld();
            $this->of->kind === Kind::Multi && $this->releaseRest($until);
            if (!$repeated) {
                $this->lost = true;
                throw $this->loss();
            }
        } catch (RedisException $trouble) {
            throw $this->lost ? $this->loss($trouble) : $trouble;
        }
        $connection = $this->binding?->take();
        $connection === null || $this->connections->give($connection);
        // The server may have had it for a little longer.
        !$this->lost || throw $this->loss();
    }

    public function giveUp(float $deadline): void
    {
        $this->of->giveUp($this->owner, $deadline);
    }

    public function mayBeHeld(): bool
    {
        return $this->binding !== null || Clock::now() < $this->expires;
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
        $words = function () use ($lease): array {
            if ($lease < $this->lease) {
                // It is valid even if the reply is lost.
                $this->lease = $lease;
                $this->expires = min($this->expires, Clock::now() + $lease);
            }
            return $this->of->renewWords($this->owner, $lease);
        };
        try {
            $this->send($words, $until);
        } catch (NotHeld) {
            $this->lost = true;
            throw $this->notHeld(self::REPORTED);
        }
        $this->renewed = $began;
        $this->lease = $lease;
        $this->expires = $began + $lease;
    }

    /** One key of a multi-key lock was lost, so LOCK.MRELEASE released none: releases the others. */
    private function releaseRest(float $until): void
    {
        foreach ($this->lock->keys as $i => $key) {
            try {
                $this->send(['LOCK.RELEASE', $key, $this->owner, ...array_slice($this->of->modes, $i, 1)], $until);
            } catch (NotHeld) {
                // This key was lost.
            }
        }
    }

    private function loss(?\Throwable $cause = null): NotHeld
    {
        $expired = $this->binding === null && Clock::now() >= $this->expires;
        return $this->notHeld($expired ? 'its lease expired' : self::REPORTED, $cause);
    }

    /** @throws NotHeld if it is lost according to the server */
    private function query(): void
    {
        foreach ($this->lock->keys as $key) {
            if ($this->send(['LOCK.WATCH', $key, $this->owner], Clock::now()) === true) {
                throw $this->notHeld(self::REPORTED);
            }
        }
    }

    private function send(array|Closure $words, float $until): mixed
    {
        $more = $this->of->replicaTime();
        // After the lease has expired the reply is of no use, but a release must be sent; a session may still exist, and
        // before that it needs a new connection soon.
        $left = $this->expires - Clock::now();
        $left = $this->binding === null ? $left : min(Connections::PATIENCE, $left > 0.2 ? $left : INF);
        $deadline = max($until, Clock::now() + max(0.2, $left)) + $more;
        return $this->connections->within($deadline, fn () => $this->connections->call(
            $this->lock->keys[0],
            fn () => [is_array($words) ? $words : $words(), $this->connections->patience(Connections::PATIENCE + $more)],
            $until,
            $this->isInherited() ? null : $this->binding,
        ), $this->lock->named());
    }
}
