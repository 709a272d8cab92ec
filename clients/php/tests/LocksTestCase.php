<?php

declare(strict_types=1);

namespace LockSo\Tests;

use LockSo\Locks;
use PHPUnit\Framework\TestCase;
use Redis;

/** A server for the class, and for each test an empty database, the locks, and a client to look with. */
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
        // The server notices a moment later that they are gone.
        $this->waitFor(fn () => $this->waiters() === 0, 'no waiter to be left');
    }

    /** What LOCK.INFO says of the key, by name; null if nobody holds it or waits. */
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

    /** How often the server has run a command. */
    protected function commands(string $name): int
    {
        preg_match("/cmdstat_$name:calls=(\d+)/", $this->redis->rawCommand('INFO', 'commandstats'), $found);
        return (int) ($found[1] ?? 0);
    }

    /** Has a fork do it, and waits for nothing. It ends with the test at the latest. */
    protected function meanwhile(callable $do): int
    {
        $pid = pcntl_fork();
        if ($pid === 0) {
            $do();
            // Without destructors: what the test has open stays as it is.
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

    /** The seconds that it takes. */
    protected function timed(callable $do): float
    {
        $began = microtime(true);
        $do();
        return microtime(true) - $began;
    }
}
