<?php

declare(strict_types=1);

namespace LockSo;

use ArrayObject;
use Closure;
use InvalidArgumentException;
use RedisException;
use Throwable;

/** A lock on the majority of several servers; the steps are those of docs/redlock.md. @internal */
final class RedLockLock extends Lock
{
    /** Seconds in which the others may reply after a majority has. */
    public const LINGER = 0.002;

    public function __construct(private RedLock $red, public readonly string $key, public readonly float $lease)
    {
        parent::__construct([$key]);
        self::checkLease($lease);
    }

    public function locked(): bool
    {
        return LockInfo::merge($this->infos($this->askMost($this->infoWords(0))))->holders !== [];
    }

    public function info(): LockInfo
    {
        return LockInfo::merge($this->infos($this->askMost($this->infoWords(10))));
    }

    public function force(): bool
    {
        return in_array(1, $this->askMost(['LOCK.FORCE', $this->key]), true);
    }

    public function named(): string
    {
        return "RedLock \"$this->key\"";
    }

    /** On how many servers this owner may hold it: those that do not reply are among them. */
    public function holding(string $owner): int
    {
        $infos = $this->infos($this->ask($this->infoWords(0), Clock::now() + Connections::PATIENCE));
        $without = fn (LockInfo $info): bool => !in_array($owner, array_column($info->holders, 'owner'), true);
        return count($this->red->servers()) - count(array_filter($infos, $without));
    }

    /** Seconds that a server has to reply. */
    public static function limit(float $lease): float
    {
        return min(1.0, max(0.02, $lease / 20));
    }

    /** Seconds of a lease on which the holder can rely: clocks differ by 1 %, and leases end at a whole millisecond. */
    public static function usable(float $lease): float
    {
        return $lease * 0.99 - 0.002;
    }

    /** The command that acquires it on one server. */
    public function acquireWords(string $owner, float $lease): array
    {
        return ['LOCK.ACQUIRE', $this->key, $owner, 'PX', Clock::milliseconds($lease), 'FENCED', 'ONCE'];
    }

    public function attempt(?float $wait, float $until, bool $named, ?Closure $between = null, float $most = INF): Hold
    {
        $this->red->checkOpen();
        $deadline = $until + Connections::TOLERANCE;
        $replied = Clock::now();
        while (true) {
            $isLast = Clock::now() >= $until;
            $replies = new ArrayObject();
            $grant = $this->round($deadline, $replies);
            if ($grant !== null) {
                return new Hold($grant);
            }
            $trouble = $this->trouble($replies->getArrayCopy());
            $now = Clock::now();
            $replied = $trouble === null ? $now : $replied;
            if ($trouble !== null && $now - $replied >= $this->red->connectTimeout()) {
                throw $trouble;
            }
            if ($isLast || $now >= $deadline) {
                // A try without replies throws the error itself: null only means that it is held.
                if ($trouble !== null && !($wait > 0)) {
                    throw $trouble;
                }
                $holders = $named && $trouble === null ? $this->holders(min($deadline, $now + 0.1)) : [];
                throw NotAcquired::within($this, $wait, $holders, $trouble);
            }
            // So that two that have blocked each other do not do so again.
            $this->red->pump(min($until, $now + random_int(20, 200) / 1000), fn () => false);
        }
    }

    /** Requests it from all servers at once. Null if no majority has granted it; then it is released on all of them. */
    private function round(float $deadline, ArrayObject $replies): ?RedLockGrant
    {
        $owner = Owner::create();
        $limit = self::limit($this->lease);
        $now = Clock::now();
        // The rest of the time is for the request: a server that is silent has connected by then, or has no part in it.
        $this->red->connect(min(($deadline + $now) / 2, $now + $limit));
        $this->checkServers();
        $servers = $this->red->servers();
        $began = Clock::now();
        $granted = fn (): array => array_filter($replies->getArrayCopy(), is_int(...));
        $grant = null;
        $asked = [];
        try {
            foreach ($servers as $i => $server) {
                // What a server still has to reply to does not keep the RedLock alive.
                $received = static fn (mixed $reply) => $replies[$i] = $reply;
                $server->request($this->acquireWords($owner, $this->lease), $received) && $asked[$i] = true;
            }
            $this->red->pump(min($deadline, $began + $limit), function () use ($replies, $granted, $servers): bool {
                $yes = count($granted());
                $no = count($replies) - $yes;
                if ($yes < $this->red->majority() && $no > count($servers) - $this->red->majority()) {
                    // trouble() has to know whether a majority replies.
                    return count($replies) === count($servers) || $this->isAnswered($replies->getArrayCopy());
                }
                return $yes >= $this->red->majority();
            });
            // Those that reply at the same time count from the beginning.
            $this->red->pump(min($deadline, Clock::now() + self::LINGER), fn () => count($replies) === count($servers));
            if (count($granted()) >= $this->red->majority() && Clock::now() < $began + self::usable($this->lease)) {
                $grant = new RedLockGrant($this->red, $this, $owner, $granted(), $asked, $began);
            }
            return $grant;
        } finally {
            // Also on those that have not replied, behind the request.
            foreach ($grant === null ? array_intersect_key($servers, $asked) : [] as $server) {
                $server->release($this->key, $owner, Clock::now() + $this->lease, static fn () => null);
            }
        }
    }

    /**
     * Null if a majority has replied, although it has not granted the lock; otherwise why it has not replied.
     *
     * @throws LockError if a majority can no longer be reached because the others refuse it
     */
    private function trouble(array $replies): LockError | RedisException | null
    {
        $silent = array_filter($replies, self::isSilence(...));
        $errors = array_filter(array_diff_key($replies, $silent), fn (mixed $reply) => $reply instanceof LockError);
        if (count($errors) > count($this->red->servers()) - $this->red->majority()) {
            throw reset($errors);
        }
        if ($this->isAnswered($replies)) {
            return null;
        }
        return reset($silent) ?: new RedisException('no reply from a majority of the servers');
    }

    /** Whether a majority has replied, also if with an error. */
    private function isAnswered(array $replies): bool
    {
        return count($replies) - count(array_filter($replies, self::isSilence(...))) >= $this->red->majority();
    }

    /** Whether it says nothing about the lock: it is a connection error, or a transient one. */
    private static function isSilence(mixed $reply): bool
    {
        return $reply instanceof RedisException || $reply instanceof Refused && $reply->isTransient();
    }

    /**
     * The owners that hold it on any server, as far as that is known until `$until` (by Clock); first those that hold it on the
     * most.
     *
     * @return list<string>
     */
    private function holders(float $until): array
    {
        $infos = $this->infos($this->ask($this->infoWords(0), $until));
        $times = array_count_values(array_column(LockInfo::merge($infos)->holders, 'owner'));
        arsort($times);
        return array_map(strval(...), array_keys($times));
    }

    /** The command that shows who holds it, and this number of waiters. */
    private function infoWords(int $waiters): array
    {
        return ['LOCK.INFO', $this->key, 'COUNT', $waiters];
    }

    /** From the replies to the command of infoWords. @return array<int, LockInfo> */
    private function infos(array $replies): array
    {
        $without = fn (mixed $reply): bool => !$reply instanceof Throwable;
        return array_map(fn (?array $reply) => LockInfo::of($this->key, $reply), array_filter($replies, $without));
    }

    /**
     * What a majority of the servers, or more, reply to a command.
     *
     * @throws LockError|RedisException if a majority refuses it, or does not reply
     * @throws InvalidArgumentException if the servers are not independent masters
     */
    private function askMost(array $words): array
    {
        try {
            $this->red->checkOpen();
            $replies = $this->ask($words, Clock::now() + Connections::PATIENCE);
            $this->checkServers();
            return ($trouble = $this->trouble($replies)) === null ? $replies : throw $trouble;
        } catch (LockError $error) {
            throw $error->about($this->named());
        }
    }

    /** Whether they are independent masters, as far as that is known. */
    private function checkServers(): void
    {
        foreach ($this->red->servers() as $server) {
            $server->refusal === null || throw new InvalidArgumentException("locks: $server->refusal");
        }
    }

    /** What the servers reply to a command until `$until` (by Clock), or soon after a majority; or their errors. */
    private function ask(array $words, float $until): array
    {
        $this->red->connect(($until + Clock::now()) / 2);
        $servers = $this->red->servers();
        $replies = new ArrayObject();
        foreach ($servers as $i => $server) {
            $server->request($words, static fn (mixed $reply) => $replies[$i] = $reply);
        }
        $isComplete = fn (): bool => count($replies) === count($servers);
        $this->red->pump($until, fn () => $isComplete() || $this->isAnswered($replies->getArrayCopy()));
        $this->red->pump(min($until, Clock::now() + RedLockGrant::LINGER), $isComplete);
        return $replies->getArrayCopy();
    }
}
