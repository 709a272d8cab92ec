<?php

declare(strict_types=1);

namespace LockSo\Adapters;

use LockSo\Tests\LocksTestCase;
use Redis;
use Throwable;

/** Processes that compete for a lock. Each has a client of its own, and reports by keys. */
abstract class AdapterTestCase extends LocksTestCase
{
    /** Runs `$do(Redis, number)` in this many processes, and waits until all have ended. */
    protected function crowd(int $processes, callable $do): void
    {
        for ($i = 0; $i < $processes; $i++) {
            $this->process(fn (Redis $redis) => $do($redis, $i));
        }
        $this->waitFor(fn () => $this->redis->lLen('test:errors') > 0 || $this->number('test:done') === $processes, 'the processes', 60.0);
        self::assertSame([], $this->redis->lRange('test:errors', 0, -1));
    }

    /** Runs `$do(Redis)` in another process, and returns its id. An error is in the list test:errors. */
    protected function process(callable $do): int
    {
        return $this->meanwhile(static function () use ($do): void {
            $redis = self::$server->client();
            try {
                $do($redis);
                $redis->incr('test:done');
            } catch (Throwable $error) {
                $redis->rPush('test:errors', (string) $error);
            }
        });
    }

    /**
     * The work of a process while it holds the lock: fails if a process that excludes it does so too. It lasts for a
     * moment, so that an error would show.
     */
    protected static function work(Redis $redis, bool $shared): void
    {
        $mine = $shared ? 'test:readers' : 'test:writers';
        $count = $redis->incr($mine);
        $others = (int) $redis->get($shared ? 'test:writers' : 'test:readers');
        $others === 0 && ($shared || $count === 1) || $redis->rPush('test:errors', "$mine: $count, of the other kind: $others");
        $count > 1 && $redis->set('test:together', 1);
        $before = (int) $redis->get('test:counter');
        usleep(500);
        $shared || $redis->set('test:counter', $before + 1);
        $redis->decr($mine);
    }

    protected function number(string $key): int
    {
        return (int) $this->redis->get($key);
    }

    /** Waits until this number of clients wait for locks. */
    protected function waitForWaiters(int $number): void
    {
        $this->waitFor(fn () => $this->waiters() === $number, "$number waiters");
    }
}
