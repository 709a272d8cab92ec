<?php

declare(strict_types=1);

namespace LockSo\Conformance;

use FFI;

/** A process for one task, because PHP executes one at a time. It is killed when its parent ends. */
final class Child
{
    private const PR_SET_PDEATHSIG = 1;

    private function __construct(public readonly int $pid, public readonly Channel $channel)
    {
    }

    /** Runs `$task` in a new process, with its end of the channel. */
    public static function start(callable $task): self
    {
        [$ours, $theirs] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        $pid = pcntl_fork();
        if ($pid === 0) {
            FFI::cdef('int prctl(int option, unsigned long value);')->prctl(self::PR_SET_PDEATHSIG, SIGKILL);
            fclose($ours);
            $task(new Channel($theirs, $theirs));
            // Without destructors, which would close what the parent has open.
            posix_kill(getmypid(), SIGKILL);
        }
        fclose($theirs);
        return new self($pid, new Channel($ours, $ours));
    }

    /** To be called in the child: waits while the parent is stopped by a signal. */
    public static function waitWhileTheParentIsStopped(): void
    {
        while (preg_match('/\) T /', (string) @file_get_contents('/proc/' . posix_getppid() . '/stat'))) {
            usleep(10000);
        }
    }

    /** Ends it, if it has not ended yet. */
    public function end(): void
    {
        posix_kill($this->pid, SIGKILL);
        pcntl_waitpid($this->pid, $status);
    }
}
