<?php

declare(strict_types=1);

namespace LockSo\Symfony\Tests;

use LockSo\Adapters\AdapterTestCase;
use LockSo\Symfony\LockStore;
use LockSo\Tests\Server;
use Redis;
use Symfony\Component\Lock\Exception\InvalidTtlException;
use Symfony\Component\Lock\Exception\LockAcquiringException;
use Symfony\Component\Lock\Exception\LockConflictedException;
use Symfony\Component\Lock\Exception\LockReleasingException;
use Symfony\Component\Lock\Key;
use Symfony\Component\Lock\LockFactory;

final class LockStoreTest extends AdapterTestCase
{
    public function testOneOfTenProcessesHoldsIt(): void
    {
        $this->crowd(10, function (Redis $redis): void {
            $factory = new LockFactory(new LockStore($redis));
            for ($i = 0; $i < 20; $i++) {
                $lock = $factory->createLock('report');
                $lock->acquire(true);
                self::work($redis, false);
                $lock->release();
            }
        });
        self::assertSame(200, $this->number('test:counter'));
        self::assertNull($this->info('report'), 'nothing is left');
    }

    public function testTenProcessesReadTogetherAndWriteAlone(): void
    {
        $this->crowd(10, function (Redis $redis, int $number): void {
            $factory = new LockFactory(new LockStore($redis));
            $shared = $number < 6;
            for ($i = 0; $i < 20; $i++) {
                $lock = $factory->createLock('page');
                $shared ? $lock->acquireRead(true) : $lock->acquire(true);
                self::work($redis, $shared);
                $lock->release();
            }
        });
        self::assertSame(80, $this->number('test:counter'));
        self::assertSame(1, $this->number('test:together'), 'readers were together');
        self::assertNull($this->info('page'), 'nothing is left');
    }

    public function testSessionsOfTenProcesses(): void
    {
        $this->crowd(10, function (Redis $redis, int $number): void {
            $factory = new LockFactory(new LockStore($redis, session: true));
            $shared = $number < 6;
            for ($i = 0; $i < 20; $i++) {
                $lock = $factory->createLock('page');
                $shared ? $lock->acquireRead(true) : $lock->acquire(true);
                self::work($redis, $shared);
                $lock->release();
            }
        });
        self::assertSame(80, $this->number('test:counter'));
        self::assertNull($this->info('page'), 'nothing is left');
    }

    public function testSessionEndsWithItsKilledProcess(): void
    {
        $holder = $this->holder(fn (Redis $redis) => new LockStore($redis, session: true), ttl: 300.0);
        $lock = $this->factory()->createLock('report');
        self::assertFalse($lock->acquire());
        posix_kill($holder, SIGKILL);
        $seconds = $this->timed(fn () => $lock->acquire(true));
        self::assertLessThan(10.0, $seconds, 'far less than the ttl');
    }

    public function testLeaseEndsAfterItsTtlIfTheProcessIsKilled(): void
    {
        $holder = $this->holder(fn (Redis $redis) => new LockStore($redis), ttl: 2.0);
        posix_kill($holder, SIGKILL);
        pcntl_waitpid($holder, $status);
        $lock = $this->factory()->createLock('report');
        self::assertFalse($lock->acquire(), 'its ttl has not elapsed');
        $lock->acquire(true);
        self::assertTrue($lock->isAcquired());
    }

    public function testWaitersSendNoCommands(): void
    {
        $lock = $this->factory()->createLock('report');
        $lock->acquire();
        for ($i = 0; $i < 3; $i++) {
            $this->process(function (Redis $redis): void {
                $waiting = (new LockFactory(new LockStore($redis)))->createLock('report');
                $waiting->acquire(true);
                $waiting->release();
            });
        }
        $this->waitForWaiters(3);
        $before = $this->redis->info('stats')['total_commands_processed'];
        usleep(500_000);
        self::assertLessThanOrEqual($before + 2, $this->redis->info('stats')['total_commands_processed']);
        $lock->release();
        $this->waitFor(fn () => $this->number('test:done') === 3, 'all of them to have held it');
    }

    public function testWaitersAreGrantedItInTheirOrder(): void
    {
        $lock = $this->factory()->createLock('report');
        $lock->acquire();
        for ($i = 0; $i < 5; $i++) {
            $this->process(function (Redis $redis) use ($i): void {
                $waiting = (new LockFactory(new LockStore($redis)))->createLock('report');
                $waiting->acquire(true);
                $redis->rPush('test:order', $i);
                $waiting->release();
            });
            $this->waitForWaiters($i + 1);
        }
        $lock->release();
        $this->waitFor(fn () => $this->number('test:done') === 5, 'all of them to have held it');
        self::assertSame(['0', '1', '2', '3', '4'], $this->redis->lRange('test:order', 0, -1));
    }

    public function testLockIsHeldOnceAfterAWait(): void
    {
        $lock = $this->factory()->createLock('report', 1.0);
        $lock->acquire();
        $waiting = $this->factory()->createLock('report');
        $waiting->acquire(true);
        self::assertSame(1, $this->holder0('report')['holds']);
        self::assertTrue($waiting->isAcquired());
        self::assertFalse($lock->isAcquired(), 'its ttl has elapsed');
        $waiting->release();
        self::assertNull($this->info('report'));
    }

    public function testKeyIsReleasedByAnotherProcess(): void
    {
        $key = new Key('report');
        $lock = $this->factory()->createLockFromKey($key, 300.0, false);
        $lock->acquire(true);
        $text = serialize($key);
        unset($lock, $key);
        $this->process(function (Redis $redis) use ($text): void {
            $lock = (new LockFactory(new LockStore($redis)))->createLockFromKey(unserialize($text));
            $lock->isAcquired() || throw new \RuntimeException('not held');
            $lock->refresh(60.0);
            $lock->release();
        });
        $this->waitFor(fn () => $this->number('test:done') === 1, 'the other process');
        self::assertNull($this->info('report'));
    }

    public function testLockRemainsAfterItsProcessWithoutAutoRelease(): void
    {
        $this->process(function (Redis $redis): void {
            $lock = (new LockFactory(new LockStore($redis)))->createLock('report', 300.0, false);
            $lock->acquire(true);
            unset($lock);
        });
        $this->waitFor(fn () => $this->number('test:done') === 1, 'the other process');
        self::assertFalse($this->factory()->createLock('report')->acquire());
    }

    public function testAutoReleaseReleases(): void
    {
        foreach ([false, true] as $session) {
            $lock = (new LockFactory(new LockStore($this->redis, session: $session)))->createLock('report');
            $lock->acquire(true);
            self::assertNotNull($this->info('report'));
            unset($lock);
            self::assertNull($this->info('report'));
        }
    }

    public function testReadLockBecomesAWriteLockWhenItIsTheLast(): void
    {
        $lock = $this->factory()->createLock('page');
        $lock->acquireRead(true);
        $this->process(function (Redis $redis): void {
            $reading = (new LockFactory(new LockStore($redis)))->createLock('page');
            $reading->acquireRead(true);
            $redis->set('test:reading', 1);
            while ($redis->get('test:go') === false) {
                usleep(1000);
            }
            $reading->release();
        });
        $this->waitFor(fn () => $this->number('test:reading') === 1, 'the other reader');
        self::assertFalse($lock->acquire(), 'another process reads');
        self::assertTrue($lock->isAcquired(), 'it reads still');
        $this->redis->set('test:go', 1);
        $lock->acquire(true);
        self::assertSame('write', $this->holder0('page')['mode']);
        $lock->acquireRead();
        self::assertSame('read', $this->holder0('page')['mode']);
        $lock->release();
        self::assertNull($this->info('page'));
    }

    public function testSessionDoesNotChangeItsMode(): void
    {
        $lock = (new LockFactory(new LockStore($this->redis, session: true)))->createLock('page');
        $lock->acquireRead();
        $this->expectException(LockAcquiringException::class);
        $lock->acquire();
    }

    public function testLossIsNoticed(): void
    {
        foreach ([false, true] as $session) {
            $lock = (new LockFactory(new LockStore($this->redis, session: $session)))->createLock('report');
            $lock->acquire();
            $this->redis->rawCommand('LOCK.FORCE', 'report');
            $next = $this->factory()->createLock('report');
            $next->acquire();
            self::assertFalse($lock->isAcquired());
            try {
                $lock->refresh();
                self::fail('it is lost');
            } catch (LockConflictedException) {
            }
            $lock->release();
            self::assertTrue($next->isAcquired(), 'the release of a lost lock releases no other one');
            $next->release();
        }
    }

    public function testTtl(): void
    {
        $lock = $this->factory()->createLock('report', 20.0);
        $lock->acquire(true);
        self::assertEqualsWithDelta(20_000, $this->redis->pttl('report'), 10_000);
        $lock->refresh(100.0);
        self::assertEqualsWithDelta(100_000, $this->redis->pttl('report'), 10_000);
        self::assertEqualsWithDelta(100.0, $lock->getRemainingLifetime(), 10.0);
        $lock->release();
        $session = (new LockFactory(new LockStore($this->redis, session: true)))->createLock('report', 20.0);
        $session->acquire(true);
        self::assertNull($session->getRemainingLifetime());
        self::assertFalse($session->isExpired());
    }

    public function testFencingTokensIncrease(): void
    {
        $store = new LockStore($this->redis, fenced: true);
        $last = 0;
        foreach ([true, false] as $waits) {
            $key = new Key('report');
            $before = $this->factory()->createLock('report', 0.2);
            $waits && $before->acquire();
            $lock = (new LockFactory($store))->createLockFromKey($key);
            $lock->acquire($waits);
            self::assertGreaterThan($last, $store->token($key));
            $last = $store->token($key);
            $lock->release();
            self::assertNull($store->token($key));
        }
    }

    public function testPrefixOfTheClient(): void
    {
        $client = self::$server->client();
        $client->setOption(Redis::OPT_PREFIX, 'app:');
        $client->setOption(Redis::OPT_SERIALIZER, Redis::SERIALIZER_PHP);
        $lock = (new LockFactory(new LockStore($client)))->createLock('report', 1.0);
        $lock->acquire();
        self::assertNotNull($this->info('app:report'));
        $next = (new LockFactory(new LockStore($client)))->createLock('report');
        $next->acquire(true);
        self::assertTrue($next->isAcquired());
    }

    public function testErrorsAreSymfonys(): void
    {
        $this->redis->set('text', 'no lock');
        $text = $this->factory()->createLock('text');
        foreach ([false, true] as $waits) {
            try {
                $text->acquire($waits);
                self::fail('it is no lock');
            } catch (LockAcquiringException $error) {
                self::assertStringContainsString('WRONGTYPE', $error->getPrevious()->getMessage());
            }
        }
        $this->expectException(InvalidTtlException::class);
        new LockStore($this->redis, 0.0);
    }

    public function testServerThatHasEnded(): void
    {
        $server = new Server();
        $lock = (new LockFactory(new LockStore($server->client())))->createLock('report');
        $lock->acquire();
        $server->stop();
        try {
            $lock->release();
            self::fail('there is no server');
        } catch (LockReleasingException) {
        }
        $this->expectException(LockAcquiringException::class);
        $lock->acquire();
    }

    public function testCluster(): void
    {
        [$one, $two] = $servers = Server::cluster();
        try {
            $redis = new \RedisCluster(null, ["127.0.0.1:$one->port", "127.0.0.1:$two->port"]);
            $factory = new LockFactory(new LockStore($redis));
            foreach (['a', 'b', 'c', 'd'] as $name) {
                $lock = $factory->createLock($name, 0.3);
                self::assertTrue($lock->acquire(true));
                $next = $factory->createLock($name);
                self::assertFalse($next->acquire());
                self::assertTrue($next->acquire(true));
                $next->release();
                self::assertFalse($next->isAcquired());
                $lock->release();
            }
        } finally {
            array_map(fn (Server $server) => $server->stop(), $servers);
        }
    }

    private function factory(): LockFactory
    {
        return new LockFactory(new LockStore(self::$server->client()));
    }

    /** A process that holds the lock report. */
    private function holder(callable $store, float $ttl): int
    {
        $pid = $this->process(function (Redis $redis) use ($store, $ttl): void {
            $lock = (new LockFactory($store($redis)))->createLock('report', $ttl);
            $lock->acquire(true);
            $redis->set('test:holding', 1);
            sleep(60);
        });
        $this->waitFor(fn () => $this->number('test:holding') === 1, 'the holder');
        return $pid;
    }

    /** The fields of the first holder. */
    private function holder0(string $key): array
    {
        $flat = $this->info($key)['holders'][0];
        return array_column(array_chunk($flat, 2), 1, 0);
    }
}
