<?php

declare(strict_types=1);

namespace LockSo;

/** Names of owners: host:pid:random. @internal */
final class Owner
{
    /** A new one, as each acquisition needs. */
    public static function create(): string
    {
        return self::process() . bin2hex(random_bytes(8));
    }

    /** The name as texts have it: a process that waits for itself is to find that out. */
    public static function described(string $owner): string
    {
        return $owner . (str_starts_with($owner, self::process()) ? ' (this process)' : '');
    }

    private static function process(): string
    {
        return str_replace(':', '_', gethostname()) . ':' . getmypid() . ':';
    }
}
