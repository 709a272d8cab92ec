<?php

declare(strict_types=1);

namespace LockSo;

use Closure;
use InvalidArgumentException;
use RedisException;

/** A lock of one server, or of one slot of a cluster. @internal */
final class KeyLock extends Lock
{
    /** [n, seconds], or null. */
    public readonly ?array $replicas;

    public function __construct(
        private Connections $connections,
        public readonly Kind $kind,
        array $keys,
        public readonly float $lease,
        public readonly bool $session,
        public readonly bool $fenced,
        ?array $replicas,
        public readonly int $limit = 1,
        public readonly int $permits = 1,
        private bool $reentrant = false,
        /** Of a multi-key lock: READ or WRITE for each key, or empty. */
        public readonly array $modes = [],
    ) {
        parent::__construct($keys);
        self::checkLease($lease);
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

    public function locked(): bool
    {
        return $this->read(0)->holders !== [];
    }

    public function info(): LockInfo
    {
        return $this->read(10);
    }

    public function force(): bool
    {
        $replies = $this->each(fn (string $key) => $this->connections->request($key, ['LOCK.FORCE', $key], once: true));
        return in_array(1, $replies, true);
    }

    /** Whether it is the same lock, so that one may be entered again while the other is held. */
    public function isSameAs(Lock $other): bool
    {
        return $other instanceof self && $this->reentrant && $other->reentrant
            && [$this->kind, $this->keys, $this->modes] === [$other->kind, $other->keys, $other->modes];
    }

    /** The order in which the locks of a combination are acquired: by server, by slot, by the smallest key. */
    public function compare(self $other): int
    {
        return strcmp($this->connections->name, $other->connections->name)
            ?: $this->connections->slot($this->keys[0]) <=> $other->connections->slot($other->keys[0])
            ?: strcmp($this->smallestKey(), $other->smallestKey());
    }

    /** Whether they have a key in common. */
    public function overlaps(self $other): bool
    {
        return $this->connections->name === $other->connections->name && array_intersect($this->keys, $other->keys) !== [];
    }

    public function attempt(?float $wait, float $until, bool $named, ?Closure $between = null, float $most = INF): Hold
    {
        $this->connections->checkOpen();
        foreach ($this->reentrant ? $this->connections->holds : [] as $hold => $_) {
            if (($again = $hold->again($this)) !== null) {
                return $this->connections->hold($again);
            }
        }
        $owner = Owner::create();
        $deadline = $until + Connections::TOLERANCE + $this->replicaTime();
        $outer = $this->connections->deadline;
        $this->connections->deadline = $deadline;
        $this->connections->settle(min(0.5, max(0.0, $until - Clock::now()) / 2 + 0.03));
        $binding = $this->session ? new Binding() : null;
        $outage = new Outage($this->connections, $this->named());
        $sent = null;
        $words = function () use ($owner, $until, $deadline, $most, &$sent): array {
            $sent = Clock::now();
            return $this->acquireWords($owner, $until - $sent, $deadline - $sent, $most);
        };
        $doubt = false;
        $unsure = true;
        try {
            do {
                $between === null || $between();
                $reply = $this->connections->call($this->keys[0], $words, $until, $binding, $outage->failed(...));
                $outage->end();
                if (is_int($reply)) {
                    $token = $this->fenced ? $reply : null;
                    $grant = new KeyGrant($this->connections, $this, $owner, $token, $binding, $sent);
                    $unsure = false;
                    return $this->connections->hold(new Hold($grant));
                }
                $doubt = $doubt || $this->connections->unsure;
            } while (Clock::now() < $until);
            $unsure = $doubt;
            throw NotAcquired::within($this, $wait, $named ? $this->holders($deadline) : []);
        } catch (LockError | RedisException $error) {
            $unsure = $doubt || $this->connections->unsure;
            $passes = $error instanceof RedisException || $error instanceof Refused && $error->isTransient();
            // A try without a reply throws the error itself: null only means that it is held.
            if ($passes && $wait > 0 && Clock::now() >= $until) {
                throw NotAcquired::within($this, $wait, [], $error);
            }
            throw $error instanceof LockError ? $error->about($this->named()) : $error;
        } finally {
            $this->connections->deadline = $outer;
            if ($unsure && $sent !== null) {
                // At least it is sent: a server that does not reply now may read it later.
                $this->giveUp($owner, max($deadline, Clock::now() + 0.02));
            }
        }
    }

    public function named(): string
    {
        return $this->kind->value . ' "' . implode('", "', $this->keys) . '"';
    }

    /** The command that releases it. */
    public function releaseWords(string $owner): array
    {
        return $this->kind === Kind::Multi
            ? ['LOCK.MRELEASE', count($this->keys), ...$this->keys, $owner, ...$this->selection()]
            : ['LOCK.RELEASE', $this->keys[0], $owner, ...$this->selection()];
    }

    /** The command that renews it. */
    public function renewWords(string $owner, float $lease): array
    {
        $multi = $this->kind === Kind::Multi;
        $what = $multi ? ['LOCK.MRENEW', count($this->keys), ...$this->keys] : ['LOCK.RENEW', $this->keys[0]];
        return [...$what, $owner, ...$this->leaseWords($lease)];
    }

    private function smallestKey(): string
    {
        return array_reduce($this->keys, fn (?string $least, string $key) => $least === null || strcmp($key, $least) < 0 ? $key : $least);
    }

    /** The arguments for the lease or the session, and for the replicas. */
    private function leaseWords(?float $lease = null): array
    {
        return [
            ...($this->session ? ['SESSION'] : ['PX', Clock::milliseconds($lease ?? $this->lease)]),
            ...($this->replicas === null ? [] : ['REPLICAS', $this->replicas[0], Clock::milliseconds($this->replicas[1])]),
        ];
    }

    /** Seconds that replicas have to acknowledge it; the server does not reply meanwhile. */
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
    private function acquireWords(string $owner, float $left, float $patience, float $most): array
    {
        $call = max(0.0, min($left, $this->connections->maxBlock, $most));
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
            ...($left > 0.0 ? ['BLOCK', $block === INF ? 0 : Clock::milliseconds($block)] : []),
        ];
        $isCut = $block > $call;
        // A granted request may be waiting for the replicas.
        return [$words, $isCut ? $call + $this->replicaTime() : max(0.01, min($call + $this->replicaTime() + Connections::PATIENCE, $patience)), $isCut];
    }

    /** Cancels a request that may still wait or be granted, or releases what it was granted. After `$deadline` that is done later. */
    public function giveUp(string $owner, float $deadline): void
    {
        $now = Clock::now();
        $left = min(Connections::PATIENCE, $deadline - $now, $this->lease);
        $cancel = ['LOCK.CANCEL', $this->keys[0], $owner];
        $multi = $this->kind === Kind::Multi;
        $commands = $multi ? [$cancel, $this->releaseWords($owner)] : [[...$cancel, 'RELEASE', ...$this->selection()]];
        $giveUp = fn () => $this->connections->giveUp($this->keys[0], $commands, $now + $this->lease, $left);
        $this->connections->within($now + $left, $giveUp);
    }

    /** The owners that hold it, if there is time left. @return list<string> */
    private function holders(float $deadline): array
    {
        if ($deadline - Clock::now() <= 0.005) {
            return [];
        }
        try {
            return array_values(array_unique(array_column($this->read(0)->holders, 'owner')));
        } catch (LockError | RedisException) {
            return [];
        }
    }

    /** What LOCK.INFO replies, with this number of waiters of each key. */
    private function read(int $waiters): LockInfo
    {
        return LockInfo::merge($this->each(function (string $key) use ($waiters): LockInfo {
            return LockInfo::of($key, $this->connections->request($key, ['LOCK.INFO', $key, 'COUNT', $waiters]));
        }));
    }

    /** What `$ask` returns for each key; all of them within the time of a short request. */
    private function each(Closure $ask): array
    {
        $until = Clock::now() + Connections::PATIENCE;
        return $this->connections->within($until, fn () => array_map($ask, $this->keys), $this->named());
    }
}
