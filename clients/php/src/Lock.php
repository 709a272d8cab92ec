<?php

declare(strict_types=1);

namespace LockSo;

use InvalidArgumentException;
use RedisException;
use Throwable;

/** A lock that can be acquired any number of times; Locks creates it. */
final class Lock
{
    /** A connection that lasted for this many seconds was no part of an outage. */
    private const LASTING = 1.0;

    /** [n, seconds], or null. */
    public readonly ?array $replicas;
    private bool $inOutage = false;

    /** @internal */
    public function __construct(
        private Connections $connections,
        /** @internal */
        public readonly Kind $kind,
        public readonly array $keys,
        public readonly float $lease,
        public readonly bool $session,
        public readonly bool $fenced,
        ?array $replicas,
        public readonly int $limit = 1,
        public readonly int $permits = 1,
        /** @internal Of a multi-key lock: READ or WRITE for each key, or empty. */
        public readonly array $modes = [],
    ) {
        $keys !== [] || throw new InvalidArgumentException('keys must not be empty');
        self::checkPositive('lease', $lease);
        if ($replicas !== null) {
            [$number, $time] = array_values($replicas) + [null, null];
            is_int($number) && (is_int($time) || is_float($time)) || throw new InvalidArgumentException('replicas must be [n, seconds]');
            $number >= 1 || throw new InvalidArgumentException("replicas must be at least 1, not $number");
            self::checkPositive('replicas: the time', $time);
            $replicas = [$number, $time];
        }
        $this->replicas = $replicas;
        $limit >= 1 || throw new InvalidArgumentException("limit must be at least 1, not $limit");
        if ($permits < 1 || $permits > $limit) {
            throw new InvalidArgumentException("permits must be from 1 to the limit of $limit, not $permits");
        }
    }

    /**
     * Acquires the lock, and waits for it `$wait` seconds at most: null has no limit, 0 does not wait.
     *
     * @throws NotAcquired    if it could not be acquired in time
     * @throws LockError      if the server refuses
     * @throws RedisException if the server was never reached, or did not reply to a try
     */
    public function acquire(?float $wait = null): Hold
    {
        return $this->attempt($wait, true);
    }

    /** The same as acquire, but returns null instead of throwing NotAcquired; without an argument it does not wait. */
    public function tryAcquire(?float $wait = 0.0): ?Hold
    {
        try {
            return $this->attempt($wait, false);
        } catch (NotAcquired) {
            return null;
        }
    }

    /** `$named`: whether the error is to name the holders. */
    private function attempt(?float $wait, bool $named): Hold
    {
        $wait === null || $wait >= 0 || throw new InvalidArgumentException("wait must not be negative, not $wait");
        $owner = self::newOwner();
        $until = Clock::now() + ($wait ?? INF);
        $deadline = $until + Connections::TOLERANCE + $this->replicaTime();
        $outer = $this->connections->deadline;
        $this->connections->deadline = $deadline;
        $this->connections->settle(min(0.5, ($wait ?? INF) / 2 + 0.03));
        $binding = $this->session ? new Binding() : null;
        $sent = null;
        $words = function () use ($owner, $until, $deadline, &$sent): array {
            $sent = Clock::now();
            return $this->acquireWords($owner, $until - $sent, $deadline - $sent);
        };
        $doubt = false;
        $unsure = true;
        try {
            do {
                $reply = $this->connections->call($this->keys[0], $words, $until, $binding, $this->outage(...));
                $this->inOutage = false;
                if (is_int($reply)) {
                    $hold = new Hold($this->connections, $this, $owner, $this->fenced ? $reply : null, $binding, $sent);
                    $unsure = false;
                    return $hold;
                }
                $doubt = $doubt || $this->connections->unsure;
            } while (Clock::now() < $until);
            $unsure = $doubt;
            throw NotAcquired::within($this, $wait, $named ? $this->holders($deadline) : []);
        } catch (LockError | RedisException $error) {
            $unsure = $doubt || $this->connections->unsure;
            $passes = $error instanceof RedisException || $error instanceof Refused && $error->isTransient();
            // A try without a reply throws the error itself: null only means that it is held.
            $timedOut = $passes && $wait > 0 && Clock::now() >= $until;
            throw $timedOut ? NotAcquired::within($this, $wait, [], $error) : $error;
        } finally {
            $this->inOutage = false;
            if ($unsure && $sent !== null) {
                $this->giveUp($owner, $deadline);
            }
            $this->connections->deadline = $outer;
        }
    }

    /** How texts name it. @internal */
    public function named(): string
    {
        return $this->kind->value . ' "' . implode('", "', $this->keys) . '"';
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

    /** The command that releases it. @internal */
    public function releaseWords(string $owner): array
    {
        return $this->kind === Kind::Multi
            ? ['LOCK.MRELEASE', count($this->keys), ...$this->keys, $owner, ...$this->selection()]
            : ['LOCK.RELEASE', $this->keys[0], $owner, ...$this->selection()];
    }

    /** The command that renews it. @internal */
    public function renewWords(string $owner, float $lease): array
    {
        $multi = $this->kind === Kind::Multi;
        $what = $multi ? ['LOCK.MRENEW', count($this->keys), ...$this->keys] : ['LOCK.RENEW', $this->keys[0]];
        return [...$what, $owner, ...$this->leaseWords($lease)];
    }

    /** The arguments for the lease or the session, and for the replicas. */
    private function leaseWords(?float $lease = null): array
    {
        return [
            ...($this->session ? ['SESSION'] : ['PX', self::milliseconds($lease ?? $this->lease)]),
            ...($this->replicas === null ? [] : ['REPLICAS', $this->replicas[0], self::milliseconds($this->replicas[1])]),
        ];
    }

    /** Seconds that replicas have to acknowledge it; the server does not reply meanwhile. @internal */
    public function replicaTime(): float
    {
        return (float) ($this->replicas[1] ?? 0.0);
    }

    /** The arguments after the key and the owner that select a hold of this kind. */
    private function selection(): array
    {
        return match ($this->kind) {
            Kind::Read => ['READ'],
            Kind::Write => ['WRITE'],
            Kind::Semaphore => ['PERMITS', $this->permits],
            Kind::Multi => $this->modes === [] ? [] : ['MODES', ...$this->modes],
            default => [],
        };
    }

    /**
     * The command that waits for the lock `$left` seconds at most, how many seconds the reply may take, and whether it
     * is cut then.
     */
    private function acquireWords(string $owner, float $left, float $patience): array
    {
        $call = max(0.0, min($left, $this->connections->maxBlock));
        // A fair wait loses its place when its BLOCK times out, but not when its connection closes: so its BLOCK is all
        // that is left.
        $block = $this->kind === Kind::Fair ? $left : $call;
        $words = [
            $this->kind->command(),
            ...($this->kind === Kind::Multi ? [count($this->keys)] : []),
            ...$this->keys,
            $owner,
            ...($this->kind === Kind::Semaphore ? [$this->limit] : []),
            ...(in_array($this->kind, [Kind::Semaphore, Kind::Multi], true) ? $this->selection() : []),
            ...$this->leaseWords(),
            ...($this->fenced ? ['FENCED'] : []),
            'ONCE',
            // BLOCK 0 has no limit; without BLOCK the command does not wait.
            ...($left > 0.0 ? ['BLOCK', $block === INF ? 0 : self::milliseconds($block)] : []),
        ];
        $isCut = $block > $call;
        // A granted request may be waiting for the replicas.
        return [$words, $isCut ? $call + $this->replicaTime() : max(0.01, min($call + $this->replicaTime() + Connections::PATIENCE, $patience)), $isCut];
    }

    /** Cancels a request that may still wait or be granted. */
    private function giveUp(string $owner, float $deadline): void
    {
        $now = Clock::now();
        // At least it is sent: a server that does not reply now may read it later.
        $left = max(0.02, min(Connections::PATIENCE, $deadline - $now, $this->lease));
        $cancel = ['LOCK.CANCEL', $this->keys[0], $owner];
        $multi = $this->kind === Kind::Multi;
        $commands = $multi ? [$cancel, $this->releaseWords($owner)] : [[...$cancel, 'RELEASE', ...$this->selection()]];
        $this->connections->deadline = $now + $left;
        $this->connections->giveUp($this->keys[0], $commands, $now + $this->lease, $left);
    }

    /** Logs the first error of an outage during which the wait goes on. */
    private function outage(RedisException $error, float $lasted): void
    {
        if (!$this->inOutage || $lasted >= self::LASTING) {
            $where = $this->connections->address;
            error_log("{$this->named()}: no connection to $where ({$error->getMessage()}); the wait goes on");
        }
        $this->inOutage = true;
    }

    /** The owners that hold it, if there is time left. @return list<string> */
    private function holders(float $deadline): array
    {
        $fields = fn (?array $flat): array => array_column(array_chunk($flat ?? [], 2), 1, 0);
        $holders = [];
        for ($i = 0; $holders === [] && $i < count($this->keys) && $deadline - Clock::now() > 0.005; $i++) {
            $words = fn () => [['LOCK.INFO', $this->keys[$i], 'COUNT', 0], $deadline - Clock::now()];
            try {
                $holders = $fields($this->connections->call($this->keys[$i], $words, 0.0))['holders'] ?? [];
            } catch (LockError | RedisException) {
                break;
            }
        }
        return array_map(fn (array $one) => $fields($one)['owner'], $holders);
    }

    /** @internal */
    public static function checkPositive(string $name, float $value): void
    {
        $value > 0 || throw new InvalidArgumentException("$name must be greater than 0, not $value");
        $value < INF || throw new InvalidArgumentException("$name must have a limit, not $value");
    }

    private static function milliseconds(float $seconds): int
    {
        return max(1, (int) ceil($seconds * 1000));
    }

    /** host:pid:random */
    private static function newOwner(): string
    {
        return str_replace(':', '_', gethostname()) . ':' . getmypid() . ':' . bin2hex(random_bytes(8));
    }
}
