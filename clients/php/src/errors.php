<?php

declare(strict_types=1);

namespace LockSo;

/** The base class of a lock's errors. Connection errors are not among them: they are php-redis' own RedisException. */
class LockError extends \RuntimeException
{
    /** `$reason` is the error code of the server's reply, such as "NOTHELD"; empty without a reply. */
    public function __construct(string $message, public readonly string $reason = '')
    {
        parent::__construct($message);
    }

    /** The exception for an error reply of the server. */
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

/** The lock could not be acquired in time. `$reason` is set if the last reply was a transient error. */
final class NotAcquired extends LockError
{
}

/** The lock was lost before it was released or renewed: another owner may have held it since. */
final class NotHeld extends LockError
{
}

/** The wait would have closed a cycle; the message names the cycle. */
final class Deadlock extends LockError
{
}

/** Too few replicas acknowledged it. An acquisition holds nothing then; a renewal is valid on this server. */
final class NoReplicas extends LockError
{
}

/** Any other error reply of the server; `$reason` is its code. */
final class Refused extends LockError
{
    private const TRANSIENT = ['READONLY', 'UNBLOCKED', 'LOADING', 'CLUSTERDOWN', 'TRYAGAIN', 'MASTERDOWN'];

    /** Whether to send the command again, on a new connection. */
    public function isTransient(): bool
    {
        return in_array($this->reason, self::TRANSIENT, true);
    }
}
