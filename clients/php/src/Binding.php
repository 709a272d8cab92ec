<?php

declare(strict_types=1);

namespace LockSo;

/** The connection to which a session's hold is bound, and which is used for nothing else. @internal */
final class Binding
{
    public ?Connection $connection = null;

    /** The connection, which belongs to the caller from now on; null if there is none. */
    public function take(): ?Connection
    {
        [$connection, $this->connection] = [$this->connection, null];
        return $connection;
    }
}
