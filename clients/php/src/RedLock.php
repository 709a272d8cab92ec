<?php

declare(strict_types=1);

namespace LockSo;

use Closure;
use InvalidArgumentException;

/**
 * Locks that are held on the majority of independent servers: no server is special. See docs/redlock.md for what this promises
 * and what it costs.
 */
final class RedLock
{
    /** @var list<Connections> */
    private array $connections;
    /** @var list<RedLockServer> */
    private array $servers = [];
    /** @var list<list<RedLockServer>> those of the parent process, whose connections are not closed here */
    private array $inherited = [];
    private int $pid = 0;

    /**
     * `$locks` are those of at least three servers, each made by Locks::server or Locks::on. The same server twice, replicas,
     * and nodes of one cluster are refused with an InvalidArgumentException, at the latest when a lock is acquired.
     *
     * @param list<Locks> $locks
     */
    public function __construct(array $locks)
    {
        count($locks) >= 3 || throw new InvalidArgumentException('locks must be those of at least 3 servers, not ' . count($locks));
        $this->connections = array_map(fn (Locks $one) => $one->connections(), array_values($locks));
        foreach (array_count_values(array_column($this->connections, 'name')) as $name => $times) {
            $times === 1 || throw new InvalidArgumentException("locks: $name and $name are the same server");
        }
    }

    /**
     * The lock of this key. Its hold has a token, the largest one of those that the servers have issued. `$lease` is in
     * seconds. The order of acquisition is random.
     */
    public function lock(string $key, float $lease = 10.0): Lock
    {
        return new RedLockLock($this, $key, $lease);
    }

    /** Tries for `$timeout` seconds to release what could not be released in time, and closes the connections. */
    public function close(float $timeout = 5.0): void
    {
        $until = Clock::now() + $timeout;
        $owing = fn () => array_filter($this->servers(), fn (RedLockServer $server) => $server->owes());
        while ($owing() !== [] && ($left = $until - Clock::now()) > 0) {
            $slice = Clock::now() + min(0.1, $left);
            $this->connect($slice);
            $this->pump($slice, fn () => $owing() === []);
        }
        array_map(fn (RedLockServer $server) => $server->disconnect(), $this->servers());
    }

    public function __destruct()
    {
        $this->pid === getmypid() && $this->close(1.0);
    }

    /** How many servers must grant it. @internal */
    public function majority(): int
    {
        return intdiv(count($this->connections), 2) + 1;
    }

    /** @throws Closed if one of the Locks is closed @internal */
    public function checkOpen(): void
    {
        array_map(fn (Connections $one) => $one->checkOpen(), $this->connections);
    }

    /** For how many seconds a majority may not reply. @internal */
    public function connectTimeout(): float
    {
        return max(array_column($this->connections, 'connectTimeout'));
    }

    /** @return list<RedLockServer> @internal */
    public function servers(): array
    {
        if ($this->pid !== getmypid()) {
            $this->pid = getmypid();
            $this->inherited[] = $this->servers;
            $this->servers = array_map(fn (Connections $one) => new RedLockServer($one), $this->connections);
        }
        return $this->servers;
    }

    /** Connects to the servers to which there is no connection, and makes all ready, until `$until` (by Clock) at most. @internal */
    public function connect(float $until): void
    {
        $servers = $this->servers();
        while ($this->step(0.0)) {
            // What has arrived since the last time.
        }
        // What did not reply to an earlier attempt is not waited for.
        $opened = array_filter($servers, fn (RedLockServer $server) => $server->stream() === null);
        array_map(fn (RedLockServer $server) => $server->connect(), $servers);
        $this->pump($until, fn () => array_filter($opened, fn (RedLockServer $server) => !$server->isSettled()) === []);
        // The last round may have ended before the replies to its releases; until then a server gets no request.
        $ready = fn (): int => count(array_filter($servers, fn (RedLockServer $server) => $server->isReady()));
        $open = fn (): int => count(array_filter($servers, fn (RedLockServer $server) => $server->stream() !== null));
        $this->pump($until, fn () => $ready() >= min($this->majority(), $open()));
        $this->pump(min($until, Clock::now() + RedLockLock::LINGER), fn () => $ready() === $open());
        foreach ($servers as $i => $server) {
            $server->check(array_slice($servers, 0, $i));
        }
    }

    /** Sends and receives until `$enough` returns true, or until `$until` (by Clock). @internal */
    public function pump(float $until, Closure $enough): void
    {
        while (!$enough() && ($left = $until - Clock::now()) > 0) {
            $this->step($left);
        }
    }

    /** Waits `$seconds` until something can be sent or received, and does so. Whether there was something. */
    private function step(float $seconds): bool
    {
        $open = array_filter($this->servers(), fn (RedLockServer $server) => $server->stream() !== null);
        if ($open === []) {
            Clock::sleep($seconds);
            return false;
        }
        $read = array_map(fn (RedLockServer $server) => $server->stream(), $open);
        $write = array_intersect_key($read, array_filter($open, fn (RedLockServer $server) => $server->isWriting()));
        $except = [];
        // A signal may end it.
        if (!@stream_select($read, $write, $except, (int) $seconds, (int) (($seconds - (int) $seconds) * 1e6))) {
            return false;
        }
        foreach (array_intersect_key($open, $read + $write) as $server) {
            $server->stream() === null || $server->advance();
        }
        return true;
    }
}
