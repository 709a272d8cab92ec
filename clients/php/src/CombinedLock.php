<?php

declare(strict_types=1);

namespace LockSo;

use Closure;
use InvalidArgumentException;

/**
 * Locks of several servers or slots, acquired one after the other in one order for all programs, so that these do not wait
 * for each other.
 *
 * @internal
 */
final class CombinedLock extends Lock
{
    /** Seconds after which what was acquired first is checked before the last one's grant counts. */
    private const CHECK = 0.1;

    /** @var list<KeyLock> in the order in which they are acquired */
    private array $members = [];

    /** @param list<Lock> $locks @param list<string>|null $keys in the order of the program, if it is that of a multi-key lock */
    public function __construct(array $locks, ?array $keys = null)
    {
        $locks !== [] || throw new InvalidArgumentException('locks must not be empty');
        foreach ($locks as $lock) {
            array_push($this->members, ...match (true) {
                $lock instanceof self => $lock->members,
                $lock instanceof KeyLock => [$lock],
                default => throw new InvalidArgumentException("locks: {$lock->named()} cannot be combined"),
            });
        }
        usort($this->members, fn (KeyLock $one, KeyLock $other) => $one->compare($other));
        foreach ($this->members as $i => $lock) {
            foreach (array_slice($this->members, 0, $i) as $other) {
                !$lock->overlaps($other) || throw new InvalidArgumentException("locks: {$lock->named()} is there twice");
            }
        }
        parent::__construct($keys ?? array_merge(...array_column($this->members, 'keys')));
    }

    public function locked(): bool
    {
        return in_array(true, array_map(fn (KeyLock $lock) => $lock->locked(), $this->members), true);
    }

    public function info(): LockInfo
    {
        return LockInfo::merge(array_map(fn (KeyLock $lock) => $lock->info(), $this->members));
    }

    public function force(): bool
    {
        return in_array(true, array_map(fn (KeyLock $lock) => $lock->force(), $this->members), true);
    }

    public function named(): string
    {
        return implode(' and ', array_map(fn (KeyLock $lock) => $lock->named(), $this->members));
    }

    public function attempt(?float $wait, float $until, bool $named, ?Closure $between = null, float $most = INF): Hold
    {
        $deadline = $until + Connections::TOLERANCE;
        do {
            $began = Clock::now();
            $held = [];
            $lost = false;
            // While the next one is waited for, nothing else renews those before it.
            $keep = function () use (&$held, &$lost, $deadline): void {
                try {
                    array_walk($held, fn (Hold $hold) => $hold->keepUntil($deadline));
                } catch (NotHeld $error) {
                    $lost = true;
                    throw $error;
                }
            };
            $granted = false;
            try {
                foreach ($this->members as $lock) {
                    $held[] = $lock->attempt($wait, $until, $named, $keep, $most);
                    $most = min($most, $lock->lease / 3);
                }
                $grant = new CombinedGrant($this, $held);
                $granted = !$grant->isLost(Clock::now() - $began > self::CHECK, $deadline);
                if ($granted) {
                    return new Hold($grant);
                }
            } catch (NotHeld $error) {
                // It is not that of a re-entry.
                $lost || throw $error;
            } finally {
                $granted || CombinedGrant::giveUpAll($held, $deadline);
            }
        } while (Clock::now() < $until);
        throw NotAcquired::within($this, $wait, []);
    }
}
