<?php

declare(strict_types=1);

namespace LockSo;

/** The connection to which a session's hold is bound, and which is used for nothing else. */
final class Binding
{
    public ?Connection $connection = null;
    private int $pid;

    public function __construct()
    {
        $this->pid = getmypid();
    }

    /** The connection, which belongs to the caller from now on; null if there is none, or in a fork. */
    public function take(): ?Connection
    {
        $connection = $this->pid === getmypid() ? $this->connection : null;
        $this->connection = null;
        return $connection;
    }
}
