<?php

declare(strict_types=1);

namespace LockSo;

/** The monotonic clock. @internal */
final class Clock
{
    /** Seconds since some moment in the past. */
    public static function now(): float
    {
        return hrtime(true) / 1e9;
    }

    /** For a command: at least one. */
    public static function milliseconds(float $seconds): int
    {
        return max(1, (int) ceil($seconds * 1000));
    }

    public static function sleep(float $seconds): void
    {
        usleep((int) ceil($seconds * 1e6));
    }
}
