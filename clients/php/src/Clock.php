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

    public static function sleep(float $seconds): void
    {
        usleep((int) ceil($seconds * 1e6));
    }
}
