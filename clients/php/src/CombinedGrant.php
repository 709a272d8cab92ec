<?php

declare(strict_types=1);

namespace LockSo;

use InvalidArgumentException;
use RedisException;

/** What several servers or slots have granted. @internal */
final class CombinedGrant extends Grant
{
    /** Seconds to give up what servers have that reply, after the deadline. */
    private const EXTRA = 0.015;

    /** @var array<int, Hold> those that are not released, in the order of their acquisition */
    private array $held;

    /** @param list<Hold> $members */
    public function __construct(CombinedLock $lock, array $members)
    {
        parent::__construct($members[0]->owner, null, $lock, members: $members);
        $this->held = $members;
    }

    public function renew(?float $lease): void
    {
        array_walk($this->held, fn (Hold $hold) => $hold->renew($lease));
    }

    public function keep(float $deadline = INF): void
    {
        array_walk($this->held, fn (Hold $hold) => $hold->keepUntil($deadline));
    }

    public function isLost(bool $query, float $deadline = INF): bool
    {
        foreach ($this->held as $hold) {
            if ($hold->isReleased() || $hold->isLostBy($query, $deadline)) {
                return true;
            }
        }
        return false;
    }

    public function release(float $patience): void
    {
        $lost = $failure = null;
        foreach (array_reverse($this->held, true) as $i => $hold) {
            try {
                $hold->releaseWithin($patience);
                unset($this->held[$i]);
            } catch (NotHeld $error) {
                unset($this->held[$i]);
                $lost ??= $error;
            } catch (LockError | RedisException $error) {
                $failure ??= $error;
            }
        }
        $error = $lost ?? $failure;
        $error === null || throw $error;
    }

    public function giveUp(float $deadline): void
    {
        self::giveUpAll($this->held, $deadline);
    }

    /**
     * Gives them up, the last one first. Those whose servers do not reply share the time that is left, so that the others are
     * released now even if there is none; what is not done in time is done later.
     *
     * @param array<int, Hold> $holds
     */
    public static function giveUpAll(array $holds, float $deadline): void
    {
        $end = max($deadline, Clock::now()) + self::EXTRA;
        while ($hold = array_pop($holds)) {
            $now = Clock::now();
            $hold->giveUp($now + ($end - $now) / (count($holds) + 1));
        }
    }

    public function awaitLoss(?float $seconds, ?string $key): bool
    {
        $found = array_filter($this->members, fn (Hold $hold) => in_array($key, $hold->keys, true));
        return ([...$found, $this->members[0]][0])->awaitLoss($seconds, $key);
    }

    public function guard(array $words): mixed
    {
        throw new InvalidArgumentException('guard: a command runs on one server, so use one of the holds');
    }

    public function mayBeHeld(): bool
    {
        return true;
    }
}
