<?php

declare(strict_types=1);

namespace LockSo;

use Closure;
use Redis;
use RedisException;

/** A connection of this package. It sends no command twice, and distinguishes error replies from connection errors. @internal */
final class Connection
{
    /** Commands of which half a reply would be a wrong one. Of the others any integer means the same. */
    private const EXACT = [
        'LOCK.GUARD', 'LOCK.FORCE', 'LOCK.INFO', 'LATCH.DOWN', 'LATCH.WAIT', 'DELAY.CANCEL', 'DELAY.LIST', 'LRANGE', 'LREM',
    ];

    /** Whether it has brought no reply yet. Otherwise the server may have closed it since. */
    public bool $fresh = true;
    private float $used;

    /** `$redis` is connected, and belongs to this object only. */
    private function __construct(private Redis $redis, public readonly string $address)
    {
        // php-redis would reconnect silently, which ends a session.
        $redis->setOption(Redis::OPT_MAX_RETRIES, 0);
        $this->used = Clock::now();
    }

    /**
     * Connects within `$timeout` seconds. `$address` is host:port or the path of a socket; `$context` is that of
     * php-redis.
     *
     * @throws RedisException if it cannot connect
     */
    public static function open(string $address, float $timeout, array $context): self
    {
        $colon = str_starts_with($address, '/') ? false : strrpos($address, ':');
        $host = $colon === false ? $address : substr($address, 0, $colon);
        $port = $colon === false ? 0 : (int) substr($address, $colon + 1);
        $redis = new Redis();
        $more = $context === [] ? [] : [$context];
        if (!self::loudly(fn () => $redis->connect($host, $port, $timeout, null, 0, $timeout, ...$more))) {
            throw new RedisException("cannot connect to $address");
        }
        return new self($redis, $address);
    }

    /**
     * Sends a command and waits at most `$patience` seconds for the reply: null, an integer, an array, a string, or
     * true for a status.
     *
     * @throws LockError      if the reply is an error
     * @throws RedisException if there is none: close the connection then
     */
    public function send(array $words, float $patience): mixed
    {
        $end = Clock::now() + $patience;
        [$reply, $error] = $this->exchange($words, $patience);
        // If the connection breaks, php-redis returns half a line as a reply: a wrong number, a wrong error, or null.
        if ($reply === false || in_array($words[0], self::EXACT, true) || in_array('FENCED', $words, true)) {
            $this->exchange(['PING'], max(0.01, $end - Clock::now()));
        }
        $this->fresh = false;
        $this->used = Clock::now();
        return $error === null ? ($reply === false ? null : $reply) : throw LockError::of($error, $this->address);
    }

    /** Whether the connection can be used. Sends PING if it was not used for a second. */
    public function isAlive(float $patience = 1.0): bool
    {
        try {
            return Clock::now() - $this->used < 1.0 || $this->send(['PING'], $patience);
        } catch (RedisException | LockError) {
            return false;
        }
    }

    /** Closes it now, because the trace of an exception may keep the object alive. */
    public function close(): void
    {
        $this->redis->close();
    }

    /** The reply, and the error if it is one: php-redis throws some errors, and returns false for others. */
    private function exchange(array $words, float $patience): array
    {
        $this->redis->clearLastError();
        $this->redis->setOption(Redis::OPT_READ_TIMEOUT, $patience);
        try {
            $reply = self::loudly(fn () => $this->redis->rawCommand(...$words)) ?? throw new RedisException('half a reply');
            return [$reply, $this->redis->getLastError()];
        } catch (RedisException $trouble) {
            return [false, $this->redis->getLastError() ?? throw $trouble];
        }
    }

    /** Throws if there is a warning: php-redis returns false with a warning if it cannot write, and false for null. */
    private static function loudly(Closure $call): mixed
    {
        $warnings = [];
        set_error_handler(static function (int $level, string $text) use (&$warnings): bool {
            $warnings[] = $text;
            return true;
        });
        try {
            $result = $call();
        } finally {
            restore_error_handler();
        }
        return $warnings === [] ? $result : throw new RedisException(implode('; ', $warnings));
    }
}
