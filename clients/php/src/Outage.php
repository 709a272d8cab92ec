<?php

declare(strict_types=1);

namespace LockSo;

use RedisException;

/** Logs the first error of each outage during which something goes on. @internal */
final class Outage
{
    /** A connection that lasted for this many seconds was no part of an outage. */
    private const LASTING = 1.0;

    private bool $lasts = false;

    public function __construct(private Connections $connections, private string $named, private string $what = 'the wait')
    {
    }

    /** `$lasted`: for how many seconds there was a connection. */
    public function failed(RedisException $error, float $lasted = 0.0): void
    {
        if (!$this->lasts || $lasted >= self::LASTING) {
            $where = $this->connections->address;
            error_log("$this->named: no connection to $where ({$error->getMessage()}); $this->what goes on");
        }
        $this->lasts = true;
    }

    public function end(): void
    {
        $this->lasts = false;
    }
}
