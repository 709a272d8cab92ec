<?php

declare(strict_types=1);

namespace LockSo\Tests;

use LockSo\Locks;
use PHPUnit\Framework\TestCase;
use Redis;

/** A server for the class, and for each test an empty database, the locks, and a client for checks. */
abstract class LocksTestCase extends TestCase
{
    protected static Server $server;
    protected Redis $redis;
    protected Locks $locks;
    /** @var list<int> */
    private array $children = [];

    public static function setUpBeforeClass(): void
    {
        self::$server = new Server();
    }

    public static function tearDownAfterClass(): void
    {
        self::$server->stop();
    }

    protected function setUp(): void
    {
        $this->redis = self::$server->client();
        $this->redis->flushAll();
        $this->locks = Locks::on(self::$server->client());
    }

    protected function tearDown(): void
    {
        foreach ($this->children as $pid) {
            posix_kill($pid, SIGKILL);
            pcntl_waitpid($pid, $status);
        }
        // The server notices a moment later that they have ended.
        $this->waitFor(fn () => $this->waiters() === 0, 'no waiter to be left');
    }

    /** The reply of LOCK.INFO, by field; null if the key has neither holders nor waiters. */
    protected function info(string $key): ?array
    {
        $reply = $this->redis->rawCommand('LOCK.INFO', $key);
        return $reply === false ? null : array_column(array_chunk($reply, 2), 1, 0);
    }

    /** The owners that hold the key. */
    protected function owners(string $key): array
    {
        return array_map(fn (array $holder) => $holder[1], $this->info($key)['holders'] ?? []);
    }

    protected function waiters(): int
    {
        preg_match('/lock_waiters:(\d+)/', $this->redis->rawCommand('INFO', 'lock'), $found);
        return (int) $found[1];
    }

    /** How often the server has executed a command. */
    protected function commands(string $name): int
    {
        preg_match("/cmdstat_$name:calls=(\d+)/", $this->redis->rawCommand('INFO', 'commandstats'), $found);
        return (int) ($found[1] ?? 0);
    }

    /** Runs it in a fork, without waiting for it. The fork is killed at the end of the test. */
    protected function meanwhile(callable $do): int
    {
        $pid = pcntl_fork();
        if ($pid === 0) {
            $do();
            // Without destructors, which would close what the test has open.
            posix_kill(getmypid(), SIGKILL);
        }
        return $this->children[] = $pid;
    }

    protected function waitFor(callable $condition, string $what, float $seconds = 15.0): void
    {
        for ($until = microtime(true) + $seconds; !$condition(); usleep(1000)) {
            self::assertLessThan($until, microtime(true), "waited for $what");
        }
        $this->addToAssertionCount(1);
    }

    /** How many seconds it takes. */
    protected function timed(callable $do): float
    {
        $began = microtime(true);
        $do();
        return microtime(true) - $began;
    }
}
