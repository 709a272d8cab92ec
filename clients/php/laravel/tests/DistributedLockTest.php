<?php

declare(strict_types=1);

namespace LockSo\Laravel\Tests;

use Illuminate\Contracts\Cache\LockTimeoutException;
use Illuminate\Support\Facades\Cache;
use LockSo\Adapters\LaravelApplication;
use LockSo\Laravel\DistributedLock;
use LockSo\Locks;
use LockSo\NotHeld;
use LockSo\Refused;
use LockSo\Tests\Server;
use Redis;
use RuntimeException;

final class DistributedLockTest extends LaravelTestCase
{
    public function testStoreIsLaravelsWithOtherLocks(): void
    {
        Cache::put('a', [1, 2], 60);
        self::assertSame([1, 2], Cache::get('a'));
        self::assertInstanceOf(DistributedLock::class, Cache::lock('report'));
        self::assertInstanceOf(DistributedLock::class, Cache::tags(['x'])->lock('report'));
    }

    public function testOneOfTenProcessesHoldsIt(): void
    {
        $this->crowd(10, function (Redis $redis, int $number): void {
            LaravelApplication::start(self::$server->port);
            for ($i = 0; $i < 20; $i++) {
                $lock = Cache::lock('report', $number < 5 ? 60 : 0);
                if ($i % 2 === 0) {
                    $lock->block(50, fn () => self::work($redis, false));
                } else {
                    $lock->block(50);
                    self::work($redis, false);
                    $lock->release() || throw new RuntimeException('it was not held');
                }
            }
        });
        self::assertSame(200, $this->number('test:counter'));
        self::assertNull($this->info($this->key()), 'nothing is left');
    }

    public function testLockOfACallbackWithoutSecondsEndsWithItsKilledProcess(): void
    {
        $holder = $this->holder(fn (callable $work) => Cache::lock('report')->block(5, $work));
        self::assertFalse(Cache::lock('report')->get());
        posix_kill($holder, SIGKILL);
        $seconds = $this->timed(fn () => Cache::lock('report')->block(60));
        self::assertLessThan(10.0, $seconds);
    }

    public function testSessionEndsWithItsKilledProcess(): void
    {
        $holder = $this->holder(function (callable $work): void {
            $lock = Cache::lock('report', 3600)->with(session: true);
            $lock->block(5);
            $work();
        });
        posix_kill($holder, SIGKILL);
        $seconds = $this->timed(fn () => Cache::lock('report')->block(60));
        self::assertLessThan(10.0, $seconds);
    }

    public function testLeaseEndsAfterItsSecondsIfTheProcessIsKilled(): void
    {
        $holder = $this->holder(fn (callable $work) => Cache::lock('report', 2)->block(5, $work));
        posix_kill($holder, SIGKILL);
        pcntl_waitpid($holder, $status);
        self::assertFalse(Cache::lock('report')->get(), 'its seconds have not elapsed');
        self::assertTrue(Cache::lock('report')->block(60));
    }

    public function testLockOutlivesItsObjectAndItsProcess(): void
    {
        foreach ([0, 60] as $seconds) {
            foreach ([fn ($lock) => $lock->get(), fn ($lock) => $lock->block(5)] as $acquire) {
                $this->process(function (Redis $redis) use ($acquire, $seconds): void {
                    LaravelApplication::start(self::$server->port);
                    $acquire(Cache::lock('report', $seconds)) || throw new RuntimeException('it is held');
                });
                $this->waitFor(fn () => $this->number('test:done') === 1, 'the process');
                self::assertFalse(Cache::lock('report')->get());
                Cache::lock('report')->forceRelease();
                self::assertNull($this->info($this->key()));
                $this->redis->del('test:done');
            }
        }
    }

    public function testAnotherProcessReleasesItByItsOwner(): void
    {
        foreach ([fn ($lock) => $lock->get(), fn ($lock) => $lock->block(5)] as $acquire) {
            $lock = Cache::lock('report', 60);
            self::assertTrue($acquire($lock));
            self::assertTrue($lock->isOwnedByCurrentProcess());
            $owner = $lock->owner();
            self::assertStringContainsString(':' . getmypid() . ':', $owner);
            unset($lock);
            self::assertFalse(Cache::restoreLock('report', 'another')->release());
            $this->process(function (Redis $redis) use ($owner): void {
                LaravelApplication::start(self::$server->port);
                $lock = Cache::restoreLock('report', $owner);
                $lock->refresh(100) && $lock->release() || throw new RuntimeException('it is not held');
            });
            $this->waitFor(fn () => $this->number('test:done') === 1, 'the process');
            self::assertNull($this->info($this->key()));
            $this->redis->del('test:done');
        }
    }

    public function testBlockEndsInTime(): void
    {
        $holder = Cache::lock('report', 60);
        $holder->get();
        foreach ([null, fn () => self::fail('it is held')] as $callback) {
            $seconds = $this->timed(function () use ($callback, $holder): void {
                try {
                    Cache::lock('report')->block(1, $callback);
                    self::fail('it is held');
                } catch (LockTimeoutException $error) {
                    self::assertStringContainsString($holder->owner(), $error->getMessage());
                }
            });
            self::assertEqualsWithDelta(1.2, $seconds, 0.3);
        }
        self::assertTrue($holder->release());
        self::assertNull($this->info($this->key()));
    }

    public function testWaitersSendNoCommandsAndKeepTheirOrder(): void
    {
        $lock = Cache::lock('report');
        $lock->get();
        for ($i = 0; $i < 5; $i++) {
            $this->process(function (Redis $redis) use ($i): void {
                LaravelApplication::start(self::$server->port);
                Cache::lock('report', 60)->block(50, fn () => $redis->rPush('test:order', $i));
            });
            $this->waitForWaiters($i + 1);
        }
        $before = $this->redis->info('stats')['total_commands_processed'];
        usleep(500_000);
        self::assertLessThanOrEqual($before + 2, $this->redis->info('stats')['total_commands_processed']);
        $lock->release();
        $this->waitFor(fn () => $this->number('test:done') === 5, 'all of them');
        self::assertSame(['0', '1', '2', '3', '4'], $this->redis->lRange('test:order', 0, -1));
    }

    public function testCallbacks(): void
    {
        self::assertSame('made', Cache::lock('report', 10)->block(1, fn () => 'made'));
        self::assertSame('made', Cache::lock('report', 10)->get(fn () => 'made'));
        self::assertSame('made', Cache::lock('report')->get(fn () => 'made'));
        foreach ([0, 10] as $seconds) {
            try {
                Cache::lock('report', $seconds)->block(1, fn () => throw new RuntimeException('failed'));
                self::fail('it throws');
            } catch (RuntimeException $error) {
                self::assertSame('failed', $error->getMessage());
            }
            self::assertNull($this->info($this->key()));
            $lock = Cache::lock('report', $seconds);
            $lock->block(1, function () use ($lock): void {
                self::assertFalse(Cache::lock('report')->get(fn () => self::fail('it is held')));
                self::assertTrue($lock->isOwnedByCurrentProcess());
                self::assertTrue($lock->refresh());
                self::assertTrue($lock->release());
            });
        }
    }

    public function testSameObjectDoesNotGetItTwice(): void
    {
        foreach ([Cache::lock('report', 60), Cache::lock('report', 60, 'mine')] as $lock) {
            self::assertTrue($lock->get());
            self::assertFalse($lock->get());
            self::assertTrue($lock->release());
            self::assertFalse($lock->release());
            self::assertTrue($lock->get(), 'again');
            self::assertTrue($lock->release());
            self::assertNull($this->info($this->key()));
        }
    }

    public function testOwnerOfYourOwn(): void
    {
        $lock = Cache::lock('report', 60, 'mine');
        self::assertTrue($lock->block(1));
        self::assertSame(['mine'], $this->owners($this->key()));
        self::assertSame('made', Cache::lock('other', 60, 'mine')->block(1, fn () => 'made'));
        self::assertFalse(Cache::lock('report', 60, 'mine')->get(), 'as Laravel');
        $this->expectException(LockTimeoutException::class);
        Cache::lock('report', 60, 'another')->block(0);
    }

    public function testLossIsNoticed(): void
    {
        $lock = Cache::lock('report', 60);
        $lock->get();
        Cache::lock('report')->forceRelease();
        $next = Cache::lock('report', 60);
        $next->get();
        self::assertFalse($lock->isOwnedByCurrentProcess());
        self::assertFalse($lock->refresh());
        self::assertFalse($lock->release());
        self::assertTrue($next->isOwnedByCurrentProcess());
        $next->release();

        $lock = Cache::lock('report');
        $before = ini_set('error_log', self::$server->folder . '/errors');
        $result = $lock->block(1, function () use ($lock): string {
            Cache::lock('report')->forceRelease();
            try {
                $lock->hold()->guard('SET', 'text', 'not written');
                self::fail('it is lost');
            } catch (NotHeld) {
            }
            self::assertTrue($lock->hold()->isLost());
            return 'made';
        });
        ini_set('error_log', $before);
        self::assertSame('made', $result);
        self::assertStringContainsString('was lost while its callback ran', file_get_contents(self::$server->folder . '/errors'));
        self::assertFalse($this->redis->get('text'));
    }

    public function testLeases(): void
    {
        $lock = Cache::lock('report', 20);
        foreach ([fn () => $lock->get(), fn () => $lock->block(1)] as $acquire) {
            $acquire();
            self::assertEqualsWithDelta(20_000, $this->redis->pttl($this->key()), 10_000);
            self::assertTrue($lock->refresh(100));
            self::assertEqualsWithDelta(100_000, $this->redis->pttl($this->key()), 10_000);
            self::assertTrue($lock->refresh());
            self::assertEqualsWithDelta(20_000, $this->redis->pttl($this->key()), 10_000);
            self::assertTrue($lock->refresh(0));
            self::assertGreaterThan(86_400_000, $this->redis->pttl($this->key()));
            $lock->release();
        }
    }

    public function testOptions(): void
    {
        $last = 0;
        foreach ([fn ($lock) => $lock->get(), fn ($lock) => $lock->block(1)] as $acquire) {
            $lock = Cache::lock('report', 60)->with(fenced: true, fair: true);
            self::assertTrue($acquire($lock));
            self::assertGreaterThan($last, $lock->hold()->token);
            $last = $lock->hold()->token;
            unset($lock);
            self::assertNull($this->info($this->key()), 'it is released with its object');
        }
        $this->expectExceptionMessage('NOREPLICAS');
        Cache::lock('report')->with(replicas: [1, 0.1])->get();
    }

    public function testErrors(): void
    {
        $this->redis->set($this->key(), 'no lock');
        foreach ([fn () => Cache::lock('report')->get(), fn () => Cache::lock('report')->block(1)] as $acquire) {
            try {
                $acquire();
                self::fail('it is no lock');
            } catch (Refused $error) {
                self::assertSame('WRONGTYPE', $error->reason);
            }
        }
    }

    public function testLocksOfTheContainer(): void
    {
        $app = LaravelApplication::start(self::$server->port);
        $server = new Server();
        try {
            $app->instance(Locks::class, Locks::on($server->client()));
            Cache::lock('report')->block(1, function () use ($server): void {
                self::assertNull($this->info($this->key()));
                self::assertNotFalse($server->client()->rawCommand('LOCK.INFO', $this->key()));
            });
        } finally {
            $app->forgetInstance(Locks::class);
            $app['cache']->forgetDriver('locks');
            $server->stop();
        }
    }

    /** The key of Cache::lock('report'). Before Laravel 11 there is a colon after the prefix. */
    private function key(): string
    {
        return Cache::getPrefix() . 'report';
    }

    /** A process that holds the lock: `$hold` is called with the work. */
    private function holder(callable $hold): int
    {
        $pid = $this->process(function (Redis $redis) use ($hold): void {
            LaravelApplication::start(self::$server->port);
            $hold(function () use ($redis): void {
                $redis->set('test:holding', 1);
                sleep(60);
            });
        });
        $this->waitFor(fn () => $this->number('test:holding') === 1, 'the holder');
        return $pid;
    }
}
