<?php

declare(strict_types=1);

namespace LockSo;

use RedisException;

/**
 * Tells the server that a request is given up: that it waits no more, and holds nothing. It knows no connections, so that these
 * can owe it, and still go with the last variable that has them.
 */
final class Withdrawal
{
    /** `$commands` are to be said in turn, until one answers that there was something; all of them concern `$key`. */
    public function __construct(private string $key, private array $commands)
    {
    }

    /**
     * Tries until `$end`, by Clock.
     *
     * @throws LockError      if the server refuses
     * @throws RedisException if it is out of reach
     */
    public function tell(Connections $connections, float $end): void
    {
        if (!$this->tellOnce($connections, $end)) {
            // What was sent on a connection that is closed by now may come a little later still.
            Clock::sleep(0.1);
            $this->tellOnce($connections, $end);
        }
    }

    /** Whether there was something to end or to give back. */
    private function tellOnce(Connections $connections, float $end): bool
    {
        try {
            foreach ($this->commands as $words) {
                if ($connections->call($this->key, fn () => [$words, max(0.1, $end - Clock::now())], $end) !== 0) {
                    return true;
                }
            }
        } catch (NotHeld) {
            // Nothing either.
        }
        return false;
    }
}
