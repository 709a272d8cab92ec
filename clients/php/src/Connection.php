<?php

declare(strict_types=1);

namespace LockSo;

use Closure;
use Redis;
use RedisException;

/** A connection of ours. It sends nothing twice, and tells the server's errors from the network's. */
final class Connection
{
    /** Whether it has answered nothing yet. One that has may have been closed by the server since. */
    public bool $fresh = true;
    private float $used;

    /** `$redis` is connected, and belongs to this object alone. */
    private function __construct(private Redis $redis, public readonly string $address)
    {
        // php-redis would connect anew without a word, which ends a session.
        $redis->setOption(Redis::OPT_MAX_RETRIES, 0);
        $this->used = Clock::now();
    }

    /**
     * Connects, within `$timeout` seconds. `$address` is host:port or a socket's path; `$context` is php-redis' own.
     *
     * @throws RedisException if it cannot
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
     * Sends a command and waits at most `$patience` seconds for the reply: null, an integer, an array, a string, or true
     * for a status.
     *
     * @throws LockError      if the reply is an error
     * @throws RedisException if there is none: close the connection then
     */
    public function ask(array $words, float $patience): mixed
    {
        [$reply, $error] = $this->exchange($words, $patience);
        // Of a connection that breaks, php-redis takes half a line for a whole one: another number, another error, or none.
        if ($reply === false || in_array('FENCED', $words, true)) {
            $this->exchange(['PING'], $patience);
        }
        $this->fresh = false;
        $this->used = Clock::now();
        return $error === null ? ($reply === false ? null : $reply) : throw LockError::of($error);
    }

    /** Whether it is worth sending something on it. Asks the server if nothing was said for a second. */
    public function isAlive(): bool
    {
        try {
            return Clock::now() - $this->used < 1.0 || $this->ask(['PING'], 1.0);
        } catch (RedisException | LockError) {
            return false;
        }
    }

    /** Closes it now: an exception's trace may keep the object for long. */
    public function close(): void
    {
        $this->redis->close();
    }

    /** What php-redis has read, and the error if it was one, of which it raises some and answers false to others. */
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

    /** A command that could not be written is answered false, with a warning: as null, but for the warning. */
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
