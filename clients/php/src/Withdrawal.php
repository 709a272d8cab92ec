<?php

declare(strict_types=1);

namespace LockSo;

use RedisException;

/**
 * Cancels a request on the server: it ends the wait or releases the hold. It does not refer to the connections, so that
 * these can owe it, and are still destroyed with the last variable that refers to them.
 */
final class Withdrawal
{
    /** Whether it was sent once already. */
    private bool $again = false;

    /**
     * `$commands` are sent one after the other until one reply shows that something was cancelled; all are for `$key`.
     */
    public function __construct(private string $key, private array $commands)
    {
    }

    /**
     * Tries until `$end`, by Clock. Whether it is done; otherwise it must be sent once more.
     *
     * @throws LockError      if the server refuses
     * @throws RedisException if the server cannot be reached
     */
    public function send(Connections $connections, float $end): bool
    {
        if ($this->sendOnce($connections, $end) || $this->again) {
            return true;
        }
        $this->again = true;
        // A request on a connection that is closed by now may arrive a little later.
        if ($end - Clock::now() < 0.15) {
            return false;
        }
        Clock::sleep(0.1);
        $this->sendOnce($connections, $end);
        return true;
    }

    /** Whether there was a wait to end or a hold to release. */
    private function sendOnce(Connections $connections, float $end): bool
    {
        try {
            foreach ($this->commands as $words) {
                if ($connections->call($this->key, fn () => [$words, max(0.02, $end - Clock::now())], $end) !== 0) {
                    return true;
                }
            }
        } catch (NotHeld) {
            // There was no hold, either.
        }
        return false;
    }
}
