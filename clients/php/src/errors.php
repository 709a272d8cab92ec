<?php

declare(strict_types=1);

namespace LockSo;

/** What a lock's call can fail with, but for the network: that is php-redis' own RedisException. */
class LockError extends \RuntimeException
{
    /** `$reason` is the error's code as the server said it, such as "NOTHELD"; empty if the server said nothing. */
    public function __construct(string $message, public readonly string $reason = '')
    {
        parent::__construct($message);
    }

    /** The error that the server's text stands for. */
    public static function of(string $text): self
    {
        $reason = explode(' ', $text, 2)[0];
        return match ($reason) {
            'NOTHELD' => new NotHeld($text, $reason),
            'DEADLOCK' => new Deadlock($text, $reason),
            'NOREPLICAS' => new NoReplicas($text, $reason),
            default => new Refused($text, $reason),
        };
    }
}

/** The lock was not to be had in the time that there was to wait; `$reason` if the server was not ready in the end. */
final class NotAcquired extends LockError
{
}

/** The lock was lost before it was released or renewed: somebody else may have had it since. */
final class NotHeld extends LockError
{
}

/** The wait would have closed a cycle of waits; the message names it. */
final class Deadlock extends LockError
{
}

/** Not so many replicas have acknowledged it. Of an acquisition: nothing is held. Of a renewal: it stands on this server. */
final class NoReplicas extends LockError
{
}

/** Any other error of the server; `$reason` has its code. */
final class Refused extends LockError
{
    private const TRANSIENT = ['READONLY', 'UNBLOCKED', 'LOADING', 'CLUSTERDOWN', 'TRYAGAIN', 'MASTERDOWN'];

    /** Whether it is worth asking again, on a new connection. */
    public function isTransient(): bool
    {
        return in_array($this->reason, self::TRANSIENT, true);
    }
}
