<?php

declare(strict_types=1);

namespace LockSo;

use Closure;
use InvalidArgumentException;
use Redis;
use RedisCluster;
use RedisException;

/**
 * Creates locks, with the settings of the program's client. It uses neither the client's connection nor its prefix.
 *
 * Options of all six kinds of locks: `lease`: seconds until a hold that is not renewed ends; `session`: the server
 * renews the lease, for as long as the hold's own connection lives; `fenced`: the hold has a fencing token; `replicas`
 * [n, seconds]: n replicas must acknowledge the grant within this time; `reentrant`: while this process holds the lock with
 * this option, it enters the same lock of the same Locks again, without a command.
 */
final class Locks
{
    private function __construct(private Connections $connections)
    {
    }

    /**
     * Locks on the server to which `$redis` is connected. `$context` is the one that `connect` was given, for TLS:
     * php-redis does not expose it. One command blocks for `$maxBlock` seconds at most, here as below; then the request
     * is sent again, so that a server that stopped responding is noticed. A wait tries to connect for `$connectTimeout`
     * seconds at most if it was never connected.
     */
    public static function on(Redis $redis, array $context = [], float $maxBlock = 30.0, float $connectTimeout = 5.0): self
    {
        $host = $redis->getHost() ?: throw new InvalidArgumentException('not connected: no settings to take; see Locks::server');
        $address = str_starts_with($host, '/') ? $host : "$host:{$redis->getPort()}";
        $timeout = $redis->getTimeout() ?: Connections::PATIENCE;
        return self::single($address, $redis->getAuth(), $redis->getDbNum(), $timeout, $context, $maxBlock, $connectTimeout);
    }

    /**
     * Locks on the server at `$address`: host:port, tls://host:port, or the path of a socket. It is connected to when it is
     * needed, so it may be down now, as one of a RedLock may be. `$auth` is a password or [user, password].
     */
    public static function server(
        string $address,
        mixed $auth = null,
        int $db = 0,
        array $context = [],
        float $maxBlock = 30.0,
        float $connectTimeout = 5.0,
    ): self {
        if (!preg_match('~^(/|(\w+://)?[^/]+:\d+$)~', $address)) {
            throw new InvalidArgumentException("address must be host:port or the path of a socket, not $address");
        }
        // php-redis has an IPv6 address without brackets.
        $address = preg_replace('~^(\w+://)?\[(.+)]:~', '$1$2:', $address);
        return self::single($address, $auth, $db, Connections::PATIENCE, $context, $maxBlock, $connectTimeout);
    }

    /**
     * Locks in a cluster: `$cluster` is a RedisCluster, or some of the nodes as host:port. `$auth` is a password or
     * [user, password], which php-redis does not expose.
     */
    public static function cluster(
        RedisCluster|array $cluster,
        mixed $auth = null,
        bool $tls = false,
        array $context = [],
        float $maxBlock = 30.0,
        float $connectTimeout = 5.0,
    ): self {
        $seeds = is_array($cluster) ? $cluster : array_map(fn ($node) => implode(':', $node), $cluster->_masters());
        $find = self::first($seeds, static function (Connections $connections, string $seed): Connection {
            $connection = $connections->open($seed);
            // A node that does not respond accepts connections nevertheless.
            $connection->send(['PING'], $connections->patience());
            return $connection;
        });
        return new self(new Connections(
            $find,
            $tls ? 'tls://' : '',
            $auth,
            context: $context,
            maxBlock: $maxBlock,
            connectTimeout: $connectTimeout,
            name: min(array_map(self::name(...), $seeds)),
            isCluster: true,
        ));
    }

    /**
     * Locks on the master that the Sentinels monitor; its address is queried for each new connection. `$sentinels` are
     * some of the Sentinels as host:port; `$auth`, `$db`, `$tls` and `$context` are for the master, `$sentinelAuth` for
     * them.
     */
    public static function sentinel(
        array $sentinels,
        string $master,
        mixed $auth = null,
        int $db = 0,
        mixed $sentinelAuth = null,
        bool $tls = false,
        array $context = [],
        float $maxBlock = 30.0,
        float $connectTimeout = 5.0,
    ): self {
        $scheme = $tls ? 'tls://' : '';
        $monitors = new Connections(fn () => null, $scheme, $sentinelAuth, context: $context);
        $find = self::first($sentinels, static function (Connections $connections, string $sentinel) use ($master, $monitors): Connection {
            $monitors->deadline = $connections->deadline;
            // Until the master is known.
            $connections->address = $sentinel;
            $words = ['SENTINEL', 'GET-MASTER-ADDR-BY-NAME', $master];
            $node = $monitors->open($sentinel)->send($words, $monitors->patience());
            return $connections->open(is_array($node) ? implode(':', $node) : throw new RedisException("$sentinel knows no $master"));
        });
        return new self(new Connections(
            $find,
            $scheme,
            $auth,
            $db,
            context: $context,
            maxBlock: $maxBlock,
            connectTimeout: $connectTimeout,
            name: $master,
        ));
    }

    /** What a RedLock needs of one of its servers. @internal */
    public function connections(): Connections
    {
        $single = $this->connections->single !== null;
        $single || throw new InvalidArgumentException('locks: each must be made by Locks::server or Locks::on');
        return $this->connections;
    }

    /** Releases what is held, within `$timeout` seconds, and closes the connections. Later uses throw Closed. */
    public function close(float $timeout = 5.0): void
    {
        $this->connections->close($timeout);
    }

    /** A lock that one owner holds at a time. */
    public function lock(
        string $key,
        float $lease = 30.0,
        bool $session = false,
        bool $fenced = false,
        ?array $replicas = null,
        bool $reentrant = false,
    ): Lock {
        return new KeyLock($this->connections, Kind::Lock, [$key], $lease, $session, $fenced, $replicas, reentrant: $reentrant);
    }

    /** The same lock, first come, first served. */
    public function fair(
        string $key,
        float $lease = 30.0,
        bool $session = false,
        bool $fenced = false,
        ?array $replicas = null,
        bool $reentrant = false,
    ): Lock {
        return new KeyLock($this->connections, Kind::Fair, [$key], $lease, $session, $fenced, $replicas, reentrant: $reentrant);
    }

    /** The read lock of a read-write lock, shared with other readers. */
    public function read(
        string $key,
        float $lease = 30.0,
        bool $session = false,
        ?array $replicas = null,
        bool $reentrant = false,
    ): Lock {
        return new KeyLock($this->connections, Kind::Read, [$key], $lease, $session, false, $replicas, reentrant: $reentrant);
    }

    /** The write lock of a read-write lock, held alone. */
    public function write(
        string $key,
        float $lease = 30.0,
        bool $session = false,
        bool $fenced = false,
        ?array $replicas = null,
        bool $reentrant = false,
    ): Lock {
        return new KeyLock($this->connections, Kind::Write, [$key], $lease, $session, $fenced, $replicas, reentrant: $reentrant);
    }

    /**
     * A multi-key lock: the locks of all `$keys`, or none of them. Or, instead of `$keys`, the read locks of all `$read`
     * and the write locks of all `$write`. In a cluster the keys of each slot are acquired in one step, one slot after the
     * other.
     */
    public function multi(
        array $keys = [],
        float $lease = 30.0,
        bool $session = false,
        ?array $replicas = null,
        array $read = [],
        array $write = [],
        bool $reentrant = false,
    ): Lock {
        $read = array_diff($read, $write);
        if ($read !== [] || $write !== []) {
            $keys === [] || throw new InvalidArgumentException('keys: read and write must be empty with it');
            $keys = [...$read, ...$write];
        }
        $modes = [...array_fill(0, count($read), 'READ'), ...array_fill(0, count($write), 'WRITE')];
        $slots = [];
        foreach (array_values($keys) as $i => $key) {
            $slots[$this->connections->slot($key)][$i] = $key;
        }
        $locks = [];
        foreach ($slots ?: [[]] as $of) {
            $its = array_values(array_intersect_key($modes, $of));
            $isSingle = count($slots) > 1 && count($of) === 1;
            $locks[] = new KeyLock(
                $this->connections,
                $isSingle ? Kind::single($its[0] ?? null) : Kind::Multi,
                array_values($of),
                $lease,
                $session,
                false,
                $replicas,
                reentrant: $reentrant,
                modes: $isSingle ? [] : $its,
            );
        }
        return count($locks) === 1 ? $locks[0] : new CombinedLock($locks, array_values($keys));
    }

    /**
     * A lock that consists of others, also of several servers: all of them, or none. They are acquired one after the other,
     * in one order for all programs: by the name of the server, then by the slot, then by the smallest key. So name
     * the servers alike in all programs.
     */
    public static function combine(Lock ...$locks): Lock
    {
        return new CombinedLock(array_values($locks));
    }

    /** `$permits` permits of a semaphore, of which all owners together hold at most `$limit`. */
    public function semaphore(
        string $key,
        int $limit,
        int $permits = 1,
        float $lease = 30.0,
        bool $session = false,
        ?array $replicas = null,
    ): Lock {
        return new KeyLock($this->connections, Kind::Semaphore, [$key], $lease, $session, false, $replicas, $limit, $permits);
    }

    /** The latch of this key. */
    public function latch(string $key): Latch
    {
        return new Latch($this->connections, $key);
    }

    /** The delayed queue of this list. */
    public function delayedQueue(string $list): DelayedQueue
    {
        return new DelayedQueue($this->connections, $list);
    }

    private static function single(
        string $address,
        mixed $auth,
        int $db,
        float $timeout,
        array $context,
        float $maxBlock,
        float $connectTimeout,
    ): self {
        return new self(new Connections(
            static fn (Connections $connections) => $connections->open($address),
            auth: $auth,
            db: $db,
            timeout: $timeout,
            context: $context,
            maxBlock: $maxBlock,
            connectTimeout: $connectTimeout,
            name: self::name($address),
            single: $address,
        ));
    }

    /** An address as the name of a server: without the scheme. */
    private static function name(string $address): string
    {
        return preg_replace('~^\w+://~', '', $address);
    }

    /**
     * Connects by `$try` to the first address for which it succeeds, beginning after those that failed last. What is
     * left until the deadline is shared by the addresses, because one of them may not respond.
     */
    private static function first(array $addresses, Closure $try): Closure
    {
        $addresses !== [] || throw new InvalidArgumentException('no address is given');
        return static function (Connections $connections) use (&$addresses, $try): Connection {
            $left = count($addresses);
            foreach ($addresses as $address) {
                $now = Clock::now();
                $share = min(Connections::PATIENCE, ($connections->deadline - $now) / $left--);
                try {
                    return $connections->within($now + $share, fn () => $try($connections, $address));
                } catch (RedisException | LockError $trouble) {
                    $addresses[] = array_shift($addresses);
                }
            }
            throw $trouble;
        };
    }
}
