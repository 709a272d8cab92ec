<?php

declare(strict_types=1);

namespace LockSo\Symfony;

use LockSo\Hold;
use LockSo\LockError;
use LockSo\NotHeld;
use Redis;
use RedisCluster;
use RedisClusterException;
use RedisException;

/**
 * The commands for a lock that is held by the name of its owner, which may be in another process by now. They are short,
 * and use the program's own connection.
 *
 * @internal
 */
final class Commands
{
    /** `$replicas`: [n, seconds], or null. */
    public function __construct(private Redis|RedisCluster $redis, private ?array $replicas = null)
    {
    }

    /** The key's name at the server. */
    public function name(string $key): string
    {
        return $this->redis->_prefix($key);
    }

    /** Tries to acquire it, as a new owner, or as the one that may hold it already; null if another owner holds it. */
    public function acquire(string $key, Mode $mode, float $ttl, bool $fenced, ?string $owner): ?State
    {
        $owner ??= self::newOwner();
        $reply = $this->send(self::command($mode), $key, $owner, ...$this->lease($ttl), ...($fenced ? ['ONCE', 'FENCED'] : ['ONCE']));
        return $reply === null ? null : new State($owner, $mode, $fenced ? $reply : null);
    }

    /**
     * Adds a hold to that of the package, which releases its own one: then only the owner's name holds it. False if it was
     * lost in between.
     */
    public function adopt(string $key, State $state, float $ttl, Hold $hold): bool
    {
        $holds = $this->send(self::command($state->mode), $key, $state->owner, ...$this->lease($ttl));
        try {
            $hold->release();
        } catch (NotHeld) {
            // It was lost before the command above, so there is at most one hold.
        }
        return $holds === 2;
    }

    /** @throws NotHeld */
    public function renew(string $key, State $state, float $ttl): void
    {
        $this->send('LOCK.RENEW', $key, $state->owner, ...$this->lease($ttl));
    }

    /** @throws NotHeld */
    public function release(string $key, State $state): void
    {
        $this->send('LOCK.RELEASE', $key, $state->owner, $state->mode->value);
    }

    public function isLost(string $key, State $state): bool
    {
        return $this->send('LOCK.WATCH', $key, $state->owner) !== null;
    }

    private static function command(Mode $mode): string
    {
        return $mode === Mode::Read ? 'LOCK.RWREAD' : 'LOCK.RWWRITE';
    }

    /** host:pid:random, as the package names its owners. */
    private static function newOwner(): string
    {
        return str_replace(':', '_', gethostname()) . ':' . getmypid() . ':' . bin2hex(random_bytes(8));
    }

    private function lease(float $ttl): array
    {
        $replicas = $this->replicas === null ? [] : ['REPLICAS', $this->replicas[0], self::milliseconds($this->replicas[1])];
        return ['PX', self::milliseconds($ttl), ...$replicas];
    }

    private static function milliseconds(float $seconds): int
    {
        return max(1, (int) ceil($seconds * 1000));
    }

    /** The reply, which is null in both of php-redis' forms. An error reply is thrown. */
    private function send(string $command, string $key, string|int ...$arguments): mixed
    {
        $name = $this->name($key);
        $route = $this->redis instanceof RedisCluster ? [$name] : [];
        $this->redis->clearLastError();
        try {
            $reply = $this->redis->rawCommand(...$route, ...[$command, $name, ...$arguments]);
        } catch (RedisException | RedisClusterException $trouble) {
            // php-redis throws some error replies, and returns false for others.
            $reply = $this->redis->getLastError() === null ? throw $trouble : false;
        }
        $error = $this->redis->getLastError();
        if ($error === null) {
            return $reply === false ? null : $reply;
        }
        $reason = strtok($error, ' ');
        throw match (true) {
            $reason === 'NOTHELD' => new NotHeld("\"$key\" is not held", reason: $reason, keys: [$key]),
            default => LockError::of($error)->about("\"$key\""),
        };
    }
}
