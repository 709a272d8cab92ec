<?php

declare(strict_types=1);

namespace LockSo\Conformance;

use LockSo\Lock;
use LockSo\Locks;
use Redis;
use RedisCluster;

/** A program's client, created in the ordinary way, and the locks on it. */
final class Client
{
    private const HOST = '127.0.0.1';

    private function __construct(public readonly Redis|RedisCluster $redis, private Locks $locks)
    {
    }

    /** `$to` has the fields of the request's `to`: kind, port or ports, master; and `max_block_ms`, or null. */
    public static function connect(array $to): self
    {
        $settings = ['maxBlock' => ($to['max_block_ms'] ?? 30000) / 1000];
        $nodes = array_map(fn (int $port) => self::HOST . ":$port", $to['ports'] ?? [$to['port'] ?? 0]);
        if ($to['kind'] === 'cluster') {
            $redis = new RedisCluster(null, $nodes, 2.0, 10.0);
            return new self($redis, Locks::cluster($redis, ...$settings));
        }
        $redis = new Redis();
        if ($to['kind'] === 'single') {
            $redis->connect(self::HOST, $to['port'], 2.0);
            return new self($redis, Locks::on($redis, ...$settings));
        }
        $redis->connect(...self::master($nodes, $to['master']));
        return new self($redis, Locks::sentinel($nodes, $to['master'], ...$settings));
    }

    /** The lock that a request describes. */
    public function lock(array $lock): Lock
    {
        $key = $lock['keys'][0];
        $options = ['lease' => ($lock['lease_ms'] ?? 30000) / 1000, 'session' => $lock['session'] ?? false];
        $options += isset($lock['replicas']) ? ['replicas' => $lock['replicas']] : [];
        $options += isset($lock['fenced']) ? ['fenced' => $lock['fenced']] : [];
        return match ($lock['kind']) {
            'multi' => $this->locks->multi($lock['keys'], ...$options),
            'semaphore' => $this->locks->semaphore($key, $lock['limit'], $lock['permits'] ?? 1, ...$options),
            default => $this->locks->{$lock['kind']}($key, ...$options),
        };
    }

    public function ping(): bool
    {
        return (bool) ($this->redis instanceof RedisCluster ? $this->redis->ping('any') : $this->redis->ping());
    }

    private static function master(array $sentinels, string $name): array
    {
        foreach ($sentinels as $sentinel) {
            try {
                $redis = new Redis();
                [$host, $port] = explode(':', $sentinel);
                $redis->connect($host, (int) $port);
                [$host, $port] = $redis->rawCommand('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', $name);
                return [$host, (int) $port];
            } catch (\RedisException $trouble) {
                continue;
            }
        }
        throw $trouble;
    }
}
