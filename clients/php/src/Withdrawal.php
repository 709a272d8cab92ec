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
    /** Seconds within which a request on a connection that is closed by now may arrive. */
    private const LATE = 0.1;

    /** By Clock: when it was sent without effect. */
    private ?float $sent = null;

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
        while (true) {
            $isLast = $this->sent !== null;
            $pause = $isLast ? $this->sent + self::LATE - Clock::now() : 0.0;
            if ($pause > 0.0) {
                if ($end - Clock::now() < $pause + 0.05) {
                    return false;
                }
                Clock::sleep($pause);
            }
            if ($this->sendOnce($connections, $end) || $isLast) {
                return true;
            }
            $this->sent = Clock::now();
        }
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
