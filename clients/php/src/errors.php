<?php

declare(strict_types=1);

namespace LockSo;

/**
 * The base class of a lock's errors, whose texts name the lock. Connection errors are not among them: they are php-redis' own
 * RedisException.
 */
class LockError extends \RuntimeException
{
    /** Whether the text names the lock. */
    protected bool $isNamed = false;

    /** `$reason` is the error code of the server's reply, such as "NOTHELD"; empty without a reply. */
    public function __construct(string $message = '', int $code = 0, ?\Throwable $previous = null, public readonly string $reason = '')
    {
        parent::__construct($message, $code, $previous);
    }

    /** The exception for an error reply of the server at this address. @internal */
    public static function of(string $text, string $address = 'the server'): self
    {
        // An unknown command in LOCK.GUARD is another error.
        if (preg_match('/^ERR unknown command .(LOCK|LATCH|DELAY)[.]/', $text)) {
            return new ModuleMissing("unknown command: is lock.so loaded on $address?", reason: 'ERR');
        }
        $reason = explode(' ', $text, 2)[0];
        return match ($reason) {
            'NOTHELD' => new NotHeld($text, reason: $reason),
            'DEADLOCK' => new Deadlock($text, reason: $reason),
            'NOREPLICAS' => new NoReplicas($text, reason: $reason),
            default => new Refused($text, reason: $reason),
        };
    }

    /** The same error, after the lock's name in its text. @internal */
    public function about(string $named): self
    {
        $this->message = $this->isNamed ? $this->message : "$named: $this->message";
        $this->isNamed = true;
        return $this;
    }
}

/**
 * The lock could not be acquired in time. If the last attempt failed by its connection or by a transient error, that is
 * the previous exception, and `$reason` the code of the error.
 */
final class NotAcquired extends LockError
{
    protected bool $isNamed = true;

    public function __construct(
        string $message = '',
        int $code = 0,
        ?\Throwable $previous = null,
        string $reason = '',
        public readonly array $keys = [],
        /** How many seconds it was to wait at most. */
        public readonly float $wait = 0.0,
        /** @var list<string> the owners that held it, as far as that is known */
        public readonly array $holders = [],
    ) {
        parent::__construct($message, $code, $previous, $reason);
    }

    /** @internal */
    public static function within(Lock $lock, float $wait, array $holders, ?\Throwable $cause = null): self
    {
        $named = array_map(Owner::described(...), array_slice($holders, 0, 2));
        $first = implode(count($holders) > 2 ? ', ' : ' and ', $named);
        $others = count($holders) - 2;
        $all = $others < 1 ? $first : "$first and $others other" . ($others > 1 ? 's' : '');
        $after = $cause !== null ? ": {$cause->getMessage()}" : ($holders === [] ? '' : ": held by $all");
        $text = $lock->named() . ' was not acquired' . ($wait > 0 ? " within $wait s" : '') . $after;
        return new self($text, 0, $cause, $cause instanceof LockError ? $cause->reason : '', $lock->keys, $wait, $holders);
    }
}

/** The lock was lost before it was released or renewed, or was released before: another owner may hold it. */
final class NotHeld extends LockError
{
    protected bool $isNamed = true;

    public function __construct(
        string $message = '',
        int $code = 0,
        ?\Throwable $previous = null,
        string $reason = '',
        public readonly array $keys = [],
    ) {
        parent::__construct($message, $code, $previous, $reason);
    }
}

/** The Locks were closed. */
final class Closed extends LockError
{
}

/**
 * The server replied DEADLOCK: the wait would have closed a cycle of owners, which the message names. Each acquisition has an
 * owner of its own, so two programs that wait for each other's second lock are not detected.
 */
final class Deadlock extends LockError
{
}

/** Too few replicas acknowledged it. An acquisition holds nothing then; a renewal is valid on this server. */
final class NoReplicas extends LockError
{
}

/** Any other error reply of the server; `$reason` is its code. */
class Refused extends LockError
{
    private const TRANSIENT = ['READONLY', 'UNBLOCKED', 'LOADING', 'CLUSTERDOWN', 'TRYAGAIN', 'MASTERDOWN'];

    /** Whether to send the command again, on a new connection. */
    public function isTransient(): bool
    {
        return in_array($this->reason, self::TRANSIENT, true);
    }
}

/** The server does not know the commands of lock.so. */
final class ModuleMissing extends Refused
{
}
