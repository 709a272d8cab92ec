<?php

declare(strict_types=1);

namespace LockSo;

/** What a session's hold is bound to: a connection that nothing else uses. */
final class Binding
{
    public ?Connection $connection = null;
    private int $pid;

    public function __construct()
    {
        $this->pid = getmypid();
    }

    /** The connection, which is the caller's now; null if there is none, or in a fork. */
    public function take(): ?Connection
    {
        $connection = $this->pid === getmypid() ? $this->connection : null;
        $this->connection = null;
        return $connection;
    }
}
