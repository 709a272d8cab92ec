<?php

declare(strict_types=1);

namespace LockSo\Conformance;

use InvalidArgumentException;
use LockSo\Lock;
use LockSo\Locks;
use LockSo\RedLock;
use Redis;
use RedisCluster;

/** A program's client, created in the ordinary way, and the locks on it. */
final class Client
{
    private const HOST = '127.0.0.1';

    private function __construct(private Redis|RedisCluster|null $redis, public readonly Locks $locks, private int $port = 0)
    {
    }

    /** Of a single server it connects when it is first used, as the locks do. */
    public function redis(): Redis|RedisCluster
    {
        if ($this->redis === null) {
            $this->redis = new Redis();
            $this->redis->connect(self::HOST, $this->port, 2.0);
        }
        return $this->redis;
    }

    /**
     * `$to` has the fields of the request's `to`: kind, port or ports, master; and `max_block_ms`, `connect_timeout_ms`
     * and `wrong`, or null.
     */
    public static function connect(array $to): self
    {
        if ($to['wrong'] ?? false) {
            try {
                Locks::on((new \ReflectionClass(RedisCluster::class))->newInstanceWithoutConstructor());
            } catch (\TypeError $error) {
                throw new WrongClient($error->getMessage());
            }
        }
        $settings = array_map(fn (int|float $ms) => $ms / 1000, array_filter([
            'maxBlock' => $to['max_block_ms'] ?? null,
            'connectTimeout' => $to['connect_timeout_ms'] ?? null,
        ], fn ($ms) => $ms !== null));
        $nodes = array_map(fn (int $port) => self::HOST . ":$port", $to['ports'] ?? [$to['port'] ?? 0]);
        if ($to['kind'] === 'cluster') {
            $redis = new RedisCluster(null, $nodes, 2.0, 10.0);
            return new self($redis, Locks::cluster($redis, ...$settings));
        }
        if ($to['kind'] === 'single') {
            return new self(null, Locks::server($nodes[0], ...$settings), $to['port']);
        }
        $redis = new Redis();
        $redis->connect(...self::master($nodes, $to['master']));
        return new self($redis, Locks::sentinel($nodes, $to['master'], ...$settings));
    }

    /**
     * The lock that a request describes, of the client `$on` of these; `$number` is that of a task that has a lock of its
     * own.
     *
     * @param array<string, self> $clients
     */
    public static function lock(array $clients, string $on, array $lock, ?int $number = null): Lock
    {
        try {
            $of = fn (array $member): Lock => self::lock($clients, $member['on'], $member['lock'], $number);
            $numbered = fn (string $key): string => $number === null ? $key : "$key:$number";
            return match ($lock['kind']) {
                'redlock' => (new RedLock(array_map(fn (string $name) => $clients[$name]->locks, $lock['on'])))
                    ->lock($numbered($lock['keys'][0]), ...(isset($lock['lease_ms']) ? [$lock['lease_ms'] / 1000] : [])),
                'combine' => Locks::combine(...array_map($of, $lock['members'])),
                default => self::make($clients[$on]->locks, ['keys' => array_map($numbered, $lock['keys'])] + $lock),
            };
        } catch (InvalidArgumentException $error) {
            throw new BadOption($error->getMessage());
        } catch (\Error $error) {
            // The method has no such parameter.
            throw str_starts_with($error->getMessage(), 'Unknown named parameter') ? new BadOption($error->getMessage()) : $error;
        }
    }

    /** The lock that a request describes, by another factory. */
    public static function make(Locks $locks, array $lock): Lock
    {
        $key = $lock['keys'][0] ?? '';
        $options = ['lease' => ($lock['lease_ms'] ?? 30000) / 1000, 'session' => $lock['session'] ?? false];
        $options += isset($lock['replicas']) ? ['replicas' => [$lock['replicas'][0], $lock['replicas'][1] / 1000]] : [];
        $options += isset($lock['reentrant']) ? ['reentrant' => $lock['reentrant']] : [];
        $options += isset($lock['fenced']) ? ['fenced' => $lock['fenced']] : [];
        $options += $lock['kind'] !== 'semaphore' && isset($lock['permits']) ? ['permits' => $lock['permits']] : [];
        return match ($lock['kind']) {
            'multi' => self::multi($locks, $lock, $options),
            'semaphore' => $locks->semaphore($key, $lock['limit'], $lock['permits'] ?? 1, ...$options),
            default => $locks->{$lock['kind']}($key, ...$options),
        };
    }

    private static function multi(Locks $locks, array $lock, array $options): Lock
    {
        if (($lock['modes'] ?? null) === null) {
            return $locks->multi($lock['keys'], ...$options);
        }
        $of = fn (string $mode) => array_map(fn (int $i) => $lock['keys'][$i], array_keys($lock['modes'], $mode, true));
        return $locks->multi(...$options, read: $of('read'), write: $of('write'));
    }

    public function ping(): bool
    {
        return (bool) ($this->redis instanceof RedisCluster ? $this->redis->ping('any') : $this->redis()->ping());
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
