<?php

declare(strict_types=1);

namespace LockSo;

use ArrayObject;
use InvalidArgumentException;
use Throwable;
use WeakReference;

/** What a majority of servers has granted. @internal */
final class RedLockGrant extends Grant
{
    /** Seconds in which the others may reply after a majority has. */
    public const LINGER = 0.02;

    private bool $lost = false;
    private float $lease;
    /** By Clock: until when a majority holds it, and when it is to be renewed. */
    private float $expires;
    private float $next;
    /** By Clock: until when a server may have it that has replied. */
    private float $ends;
    /** @var array<int, mixed> the servers that have held it all the time, as keys */
    private array $counted;

    /**
     * `$granted` are the tokens of the servers that have granted it, `$asked` all that may do so later, as keys, and `$began`
     * is when it was requested.
     */
    public function __construct(
        private RedLock $red,
        private RedLockLock $of,
        string $owner,
        array $granted,
        private array $asked,
        float $began,
    ) {
        parent::__construct($owner, max($granted), $of);
        $this->counted = $granted;
        $this->lease = $of->lease;
        $this->expires = $began + RedLockLock::usable($of->lease);
        $this->next = $began + $of->lease / 3;
        $this->ends = Clock::now() + $of->lease;
    }

    public function renew(?float $lease): void
    {
        while (true) {
            !$this->isLost(false) || throw $this->loss();
            if ($this->round($lease ?? $this->lease, $this->expires)) {
                return;
            }
            $this->red->pump(min($this->next, $this->expires), fn () => false);
        }
    }

    public function keep(float $deadline = INF): void
    {
        if (!$this->isLost(false) && Clock::now() >= $this->next) {
            $this->round($this->lease, min($deadline, $this->expires));
        }
        !$this->isLost(false) || throw $this->loss();
    }

    public function isLost(bool $query, float $deadline = INF): bool
    {
        if ($this->isInherited()) {
            return $query && $this->isLostOnServers();
        }
        $this->lost = $this->lost || Clock::now() >= $this->expires;
        if ($query && !$this->lost) {
            $this->round($this->lease, min($deadline, $this->expires));
            $this->lost = $this->lost || Clock::now() >= $this->expires;
        }
        return $this->lost;
    }

    public function release(float $patience): void
    {
        $lost = $this->isLost(false);
        $until = Clock::now() + min($patience, RedLockLock::limit($this->lease));
        $this->requestRelease();
        $this->red->connect($until);
        // A server that cannot be reached is not waited for.
        $owing = fn (RedLockServer $server) => $server->stream() !== null && $server->owes($this->owner);
        $this->red->pump($until, fn () => array_filter($this->red->servers(), $owing) === []);
        $this->lost = $lost || count($this->counted) < $this->red->majority();
        !$this->lost || throw $this->loss();
    }

    public function giveUp(float $deadline): void
    {
        $this->requestRelease();
    }

    public function awaitLoss(?float $seconds, ?string $key): bool
    {
        $until = Clock::now() + ($seconds ?? INF);
        while (!$this->isLost(true)) {
            $left = $until - Clock::now();
            if ($left <= 0) {
                return false;
            }
            Clock::sleep(min($left, $this->lease / 10));
        }
        return true;
    }

    public function guard(array $words): mixed
    {
        throw new InvalidArgumentException('guard: a RedLock has no server of its own, so use its token');
    }

    public function mayBeHeld(): bool
    {
        return Clock::now() < $this->ends;
    }

    /** Renews it on all servers at once; whether a majority has renewed it that has held it all the time. */
    private function round(float $lease, float $until): bool
    {
        $limit = RedLockLock::limit($lease);
        $this->red->connect(min($until, Clock::now() + $limit));
        $began = Clock::now();
        if ($lease < $this->lease) {
            // It is valid even if the replies are lost.
            $this->lease = $lease;
            $this->expires = min($this->expires, $began + RedLockLock::usable($lease));
        }
        $this->ends = max($this->ends, $began + $lease);
        $servers = $this->red->servers();
        $renewed = new ArrayObject();
        $grant = WeakReference::create($this);
        $done = 0;
        $words = ['LOCK.RENEW', $this->of->key, $this->owner, 'PX', Clock::milliseconds($lease)];
        foreach ($servers as $i => $server) {
            // What a server still has to reply to does not keep the RedLock alive.
            $server->request($words, static function (mixed $reply) use ($grant, $i, $server, $lease, $renewed, &$done): void {
                $done++;
                if ($reply instanceof NotHeld) {
                    $grant->get()?->requestAgain($i, $server, $lease);
                } elseif (!$reply instanceof Throwable) {
                    $renewed[$i] = true;
                }
            });
        }
        $isRenewed = fn (): bool => count(array_intersect_key($this->counted, $renewed->getArrayCopy())) >= $this->red->majority();
        $isLost = fn (): bool => count($this->counted) < $this->red->majority();
        $this->red->pump(min($until, $began + $limit), function () use ($isRenewed, $isLost, $servers, &$done): bool {
            return $done === count($servers) || $isRenewed() || $isLost();
        });
        $this->red->pump(min($until, Clock::now() + self::LINGER), function () use ($isLost, $servers, &$done): bool {
            return $done === count($servers) || $isLost();
        });
        $this->lost = $this->lost || $isLost();
        if ($this->lost || !$isRenewed()) {
            $this->next = Clock::now() + $this->lease / 10;
            return false;
        }
        $this->lease = $lease;
        $this->expires = $began + RedLockLock::usable($lease);
        $this->next = $began + $lease / 3;
        // A majority has held it without those that have granted it later.
        $this->counted += $renewed->getArrayCopy();
        return true;
    }

    /** Releases it on all servers that may have granted it. */
    private function requestRelease(): void
    {
        $grant = WeakReference::create($this);
        foreach (array_intersect_key($this->red->servers(), $this->asked) as $i => $server) {
            $received = static function (mixed $reply) use ($grant, $i): void {
                $lost = $reply instanceof NotHeld ? $grant->get() : null;
                if ($lost !== null) {
                    unset($lost->counted[$i]);
                }
            };
            $server->release($this->of->key, $this->owner, Clock::now() + $this->lease, $received);
        }
    }

    /** A server that has lost it counts again after a round that had a majority without it. */
    private function requestAgain(int $i, RedLockServer $server, float $lease): void
    {
        unset($this->counted[$i]);
        if (!$this->isLost(false) && count($this->counted) >= $this->red->majority()) {
            $server->request($this->of->acquireWords($this->owner, $lease), fn () => null) && $this->asked[$i] = true;
        }
    }

    /** What a fork can know. A server that does not reply may hold it. */
    private function isLostOnServers(): bool
    {
        return $this->of->holding($this->owner) < $this->red->majority();
    }

    private function loss(): NotHeld
    {
        return $this->notHeld(Clock::now() >= $this->expires ? 'no majority has renewed it in time' : 'a majority of the servers has lost it');
    }
}
