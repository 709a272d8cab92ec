<?php

declare(strict_types=1);

namespace LockSo;

use RedisException;
use Throwable;

/** A lock that can be acquired any number of times; Locks creates it. */
final class Lock
{
    /** Seconds that a server has for its reply when the wait times out, and the same for the cancellation. */
    private const LATE = 0.9;

    /** @internal */
    public function __construct(
        private Connections $connections,
        public readonly Kind $kind,
        public readonly array $keys,
        public readonly float $lease,
        public readonly bool $session,
        public readonly bool $fenced,
        public readonly ?array $replicas,
        public readonly int $limit = 1,
        public readonly int $permits = 1,
    ) {
    }

    /**
     * Acquires the lock, and waits for it `$wait` seconds at most: null has no limit, 0 does not wait.
     *
     * @throws NotAcquired    if it could not be acquired in time
     * @throws LockError      if the server refuses
     * @throws RedisException if the server cannot be reached when the wait times out
     */
    public function acquire(?float $wait = null): Hold
    {
        $this->connections->settle();
        $owner = self::newOwner();
        $until = Clock::now() + ($wait ?? INF);
        $binding = $this->session ? new Binding() : null;
        $asked = null;
        $words = function () use ($owner, $until, &$asked): array {
            $asked = Clock::now();
            return $this->acquireWords($owner, $until - $asked);
        };
        $doubt = false;
        $unsure = true;
        try {
            do {
                $reply = $this->connections->call($this->keys[0], $words, $until, $binding);
                if (is_int($reply)) {
                    $hold = new Hold($this->connections, $this, $owner, $this->fenced ? $reply : null, $binding, $asked);
                    $unsure = false;
                    return $hold;
                }
                $doubt = $doubt || $this->connections->unsure;
            } while (Clock::now() < $until);
            throw new NotAcquired(implode(', ', $this->keys) . ': held by another owner');
        } catch (LockError $error) {
            $unsure = $doubt || $this->connections->unsure;
            $transient = $error instanceof Refused && $error->isTransient();
            throw $transient ? new NotAcquired($error->getMessage(), $error->reason) : $error;
        } finally {
            if ($unsure && $asked !== null) {
                $this->giveUp($owner, $until);
            }
        }
    }

    /** The same as acquire, but returns null instead of throwing NotAcquired; without an argument it does not wait. */
    public function tryAcquire(?float $wait = 0.0): ?Hold
    {
        try {
            return $this->acquire($wait);
        } catch (NotAcquired) {
            return null;
        }
    }

    /**
     * Runs `$body` with the hold as its argument while the lock is held, and returns what `$body` returns. An exception
     * of `$body` is thrown unchanged, also if the lock was lost meanwhile.
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
        $hold->release();
        return $result;
    }

    /** The command that releases it. @internal */
    public function releaseWords(string $owner): array
    {
        return $this->kind === Kind::Multi
            ? ['LOCK.MRELEASE', count($this->keys), ...$this->keys, $owner]
            : ['LOCK.RELEASE', $this->keys[0], $owner, ...$this->which()];
    }

    /** The arguments for the lease or the session, and for the replicas. @internal */
    public function leaseWords(?float $lease = null): array
    {
        return [
            ...($this->session ? ['SESSION'] : ['PX', self::milliseconds($lease ?? $this->lease)]),
            ...($this->replicas === null ? [] : ['REPLICAS', ...$this->replicas]),
        ];
    }

    /** Seconds that replicas have to acknowledge it; the server does not reply meanwhile. @internal */
    public function replicaTime(): float
    {
        return ($this->replicas[1] ?? 0) / 1000;
    }

    /** The arguments after the key and the owner that select a hold of this kind. */
    private function which(): array
    {
        return match ($this->kind) {
            Kind::Read => ['READ'],
            Kind::Write => ['WRITE'],
            Kind::Semaphore => ['PERMITS', $this->permits],
            default => [],
        };
    }

    /** The command that waits for the lock `$left` seconds at most, and how many seconds the reply may take. */
    private function acquireWords(string $owner, float $left): array
    {
        $call = max(0.0, min($left, $this->connections->maxBlock));
        // A fair wait loses its place when its BLOCK times out, but not when its connection closes: so its BLOCK is all
        // that is left.
        $block = $this->kind === Kind::Fair ? $left : $call;
        $words = [
            $this->kind->value,
            ...($this->kind === Kind::Multi ? [count($this->keys)] : []),
            ...$this->keys,
            $owner,
            ...($this->kind === Kind::Semaphore ? [$this->limit, ...$this->which()] : []),
            ...$this->leaseWords(),
            ...($this->fenced ? ['FENCED'] : []),
            'ONCE',
            // BLOCK 0 has no limit; without BLOCK the command does not wait.
            ...($left > 0.0 ? ['BLOCK', $block === INF ? 0 : self::milliseconds($block)] : []),
        ];
        return [$words, $call + $this->replicaTime() + ($call < $left ? Connections::PATIENCE : self::LATE)];
    }

    /**
     * Cancels a request that could wait until `$until`. If the server cannot be reached now, the withdrawal is owed.
     */
    private function giveUp(string $owner, float $until): void
    {
        $now = Clock::now();
        $late = $until === INF ? Connections::PATIENCE : 2 * self::LATE + $until - $now;
        $cancel = ['LOCK.CANCEL', $this->keys[0], $owner];
        $multi = $this->kind === Kind::Multi;
        $commands = $multi ? [$cancel, $this->releaseWords($owner)] : [[...$cancel, 'RELEASE', ...$this->which()]];
        $withdrawal = new Withdrawal($this->keys[0], $commands);
        try {
            $withdrawal->send($this->connections, $now + max(0.1, min($late, $this->lease)));
        } catch (RedisException | LockError) {
            $this->connections->owe($withdrawal, $now + $this->lease);
        }
    }

    private static function milliseconds(float $seconds): int
    {
        return max(1, (int) ceil($seconds * 1000));
    }

    /** A random UUID. */
    private static function newOwner(): string
    {
        $bytes = random_bytes(16);
        $bytes[6] = chr(ord($bytes[6]) & 0x0F | 0x40);
        $bytes[8] = chr(ord($bytes[8]) & 0x3F | 0x80);
        return vsprintf('%s%s-%s-%s-%s-%s%s%s', str_split(bin2hex($bytes), 4));
    }
}
