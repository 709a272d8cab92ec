<?php

declare(strict_types=1);

namespace LockSo\Tests;

use LockSo\Lock;
use LockSo\LockInfo;
use LockSo\Locks;
use LockSo\NoReplicas;
use LockSo\NotAcquired;
use LockSo\NotHeld;
use LockSo\Refused;

/** What each kind of lock grants and excludes, and the errors. */
final class KindsTest extends LocksTestCase
{
    /** @return array<string, array{callable(Locks, mixed...): Lock}> */
    public function exclusive(): array
    {
        return [
            'lock' => [fn (Locks $locks, ...$options) => $locks->lock('k', ...$options)],
            'fair' => [fn (Locks $locks, ...$options) => $locks->fair('k', ...$options)],
            'write' => [fn (Locks $locks, ...$options) => $locks->write('k', ...$options)],
            'multi' => [fn (Locks $locks, ...$options) => $locks->multi(['k', 'l'], ...$options)],
            'multi with modes' => [fn (Locks $locks, ...$options) => $locks->multi(...$options, read: ['l'], write: ['k'])],
            'semaphore' => [fn (Locks $locks, ...$options) => $locks->semaphore('k', 2, 2, ...$options)],
        ];
    }

    /** @dataProvider exclusive */
    public function testOneAtATime(callable $make): void
    {
        $lock = $make($this->locks, lease: 5.0);
        $hold = $lock->acquire();
        self::assertSame([$hold->owner], $this->owners('k'));
        self::assertSame($lock->keys, $hold->keys);
        self::assertNull($hold->token);
        self::assertFalse($hold->isLost());
        self::assertGreaterThan(0, $this->redis->pttl('k'));
        self::assertLessThanOrEqual(5000, $this->redis->pttl('k'));
        self::assertNull($lock->tryAcquire());
        self::assertGreaterThan(0.2, $this->timed(fn () => self::assertNull($lock->tryAcquire(0.2))));
        $hold->release();
        self::assertSame(0, $this->redis->exists('k', 'l'));
        self::assertFalse($hold->isLost());
        try {
            $hold->release();
            self::fail('it was released before');
        } catch (NotHeld $error) {
            self::assertStringEndsWith(' is not held: it was released before', $error->getMessage());
        }
        $again = $lock->acquire(0.0);
        self::assertNotSame($hold->owner, $again->owner);
    }

    /** @dataProvider exclusive */
    public function testWaitsUntilItIsReleased(callable $make): void
    {
        $hold = $make($this->locks)->acquire();
        $this->meanwhile(function () use ($make): void {
            $make(Locks::on(self::$server->client()))->run(fn ($hold) => self::$server->client()->rPush('got', $hold->owner));
            self::$server->client()->rPush('done', 1);
        });
        $this->waitFor(fn () => $this->waiters() === 1, 'a waiter');
        self::assertSame(0, $this->redis->lLen('got'));
        $hold->release();
        self::assertNotEmpty($this->redis->blPop(['done'], 10));
        self::assertNotSame([$hold->owner], $this->redis->lRange('got', 0, 0));
        self::assertNull($this->info('k'));
    }

    /** @dataProvider exclusive */
    public function testASessionHasAConnectionOfItsOwn(callable $make): void
    {
        $hold = $make($this->locks, session: true)->acquire();
        self::assertIsInt($this->info('k')['holders'][0][9], 'bound to a connection');
        // Another command of these locks does not use it.
        self::assertNull($make($this->locks)->tryAcquire());
        $hold->keep();
        self::assertFalse($hold->isLost());
        $hold->release();
        self::assertNull($this->info('k'));
    }

    public function testReadersShareAndAWriterDoesNot(): void
    {
        $read = $this->locks->read('k');
        $first = $read->acquire(0.0);
        $second = $read->acquire(0.0);
        self::assertNull($this->locks->write('k')->tryAcquire());
        $first->release();
        self::assertNull($this->locks->write('k')->tryAcquire());
        $second->release();
        $this->locks->write('k')->acquire(0.0)->release();
        self::assertNull($this->info('k'));
    }

    public function testKeysToReadAreSharedAndKeysToWriteAreNot(): void
    {
        $one = $this->locks->multi(read: ['/', '/a'], write: ['/a'])->acquire();
        self::assertSame(['/', '/a'], $one->keys);
        self::assertSame(['read', 'write'], [$this->info('/')['mode'], $this->info('/a')['mode']]);
        $two = $this->locks->multi(read: ['/'], write: ['/b'])->acquire(0.0);
        self::assertCount(2, $this->owners('/'));
        self::assertNull($this->locks->multi(read: ['/', '/b'])->tryAcquire());
        $renewals = $this->commands('lock.mrenew');
        $one->renew(60.0);
        self::assertGreaterThan(50000, min($this->redis->pttl('/'), $this->redis->pttl('/a')));
        self::assertSame($renewals + 1, $this->commands('lock.mrenew'));
        $this->redis->rawCommand('LOCK.FORCE', '/b');
        try {
            $two->release();
            self::fail('one of its locks is lost');
        } catch (NotHeld) {
            self::assertSame([$one->owner], $this->owners('/'), 'the other one is released');
        }
        $one->release();
        self::assertNull($this->info('/') ?? $this->info('/a'));
    }

    public function testPermits(): void
    {
        $one = $this->locks->semaphore('k', 3);
        $hold = $this->locks->semaphore('k', 3, 2)->acquire();
        self::assertSame(2, $hold->permits);
        $last = $one->acquire();
        self::assertNull($one->tryAcquire());
        $hold->release();
        self::assertSame([$last->owner], $this->owners('k'));
        self::assertNull($this->locks->semaphore('k', 3, 3)->tryAcquire());
    }

    public function testTokensIncrease(): void
    {
        foreach (['lock', 'fair', 'write'] as $kind) {
            $lock = $this->locks->$kind($kind, fenced: true);
            $first = $lock->run(fn ($hold) => $hold->token);
            self::assertIsInt($first);
            self::assertGreaterThan($first, $lock->run(fn ($hold) => $hold->token));
        }
    }

    public function testNotAcquiredNamesTheKeys(): void
    {
        $hold = $this->locks->lock('l')->acquire();
        $this->expectExceptionObject(new NotAcquired("multi-key lock \"k\", \"l\" was not acquired within 0.01 s: held by $hold->owner (this process)"));
        $this->locks->multi(['k', 'l'])->acquire(0.01);
    }

    public function testNoReplicas(): void
    {
        $lock = $this->locks->lock('k', replicas: [1, 0.1]);
        try {
            $lock->acquire(0.0);
            self::fail('there is no replica');
        } catch (NoReplicas $error) {
            self::assertSame('NOREPLICAS', $error->reason);
            self::assertStringStartsWith('lock "k": NOREPLICAS ', $error->getMessage());
        }
        self::assertNull($this->info('k'));
    }

    /** @return array<string, array{callable(Locks): mixed, string}> */
    public function badOptions(): array
    {
        return [
            'no time' => [fn ($locks) => $locks->lock('k', replicas: [1]), 'replicas must be [n, seconds]'],
            'no list' => [fn ($locks) => $locks->lock('k', replicas: []), 'replicas must be [n, seconds]'],
            'a string' => [fn ($locks) => $locks->lock('k', replicas: ['1', 1]), 'replicas must be [n, seconds]'],
            'no replica' => [fn ($locks) => $locks->lock('k', replicas: [0, 1]), 'replicas must be at least 1, not 0'],
            'a time of 0' => [fn ($locks) => $locks->lock('k', replicas: [1, 0]), 'replicas: the time must be greater than 0, not 0'],
            'a lease without end' => [fn ($locks) => $locks->lock('k', lease: INF), 'lease must have a limit, not INF'],
            'a lease of less than 1 ms' => [fn ($locks) => $locks->fair('k', lease: 0.0005), 'lease must be at least 1 ms, not 0.0005 s'],
            'renew for less than 1 ms' => [
                fn ($locks) => $locks->lock('k')->acquire()->renew(0.0009),
                'lease must be at least 1 ms, not 0.0009 s',
            ],
            'renew' => [fn ($locks) => $locks->lock('k')->acquire()->renew(0.0), 'lease must be greater than 0, not 0'],
            'a session' => [fn ($locks) => $locks->lock('k', session: true)->acquire()->renew(1.0), 'lease: a session has none'],
        ];
    }

    /** @dataProvider badOptions */
    public function testAnErrorNamesTheOption(callable $use, string $text): void
    {
        $this->expectExceptionObject(new \InvalidArgumentException($text));
        $use($this->locks);
    }

    /** @dataProvider exclusive */
    public function testWhoHoldsItAndWhoWaits(callable $make): void
    {
        $lock = $make($this->locks, lease: 20.0);
        self::assertFalse($lock->locked());
        self::assertEquals(new LockInfo(), $lock->info());
        self::assertFalse($lock->force());
        $hold = $lock->acquire();
        $this->meanwhile(fn () => $make(Locks::on(self::$server->client()))->acquire(20.0));
        $this->waitFor(fn () => $this->waiters() === 1, 'a waiter');
        self::assertTrue($lock->locked());
        $info = $lock->info();
        self::assertSame($lock->keys, array_column($info->holders, 'key'));
        self::assertSame([$hold->owner], array_values(array_unique(array_column($info->holders, 'owner'))));
        self::assertSame($hold->permits, $info->holders[0]->holds);
        self::assertFalse($info->holders[0]->session);
        self::assertEqualsWithDelta(20.0, $info->holders[0]->left, 10.0);
        self::assertSame(count($lock->keys), $info->waiting);
        self::assertCount(count($lock->keys), $info->waiters);
        [$waiter] = $info->waiters;
        self::assertSame($lock->keys[0], $waiter->key);
        self::assertNotSame($hold->owner, $waiter->owner);
        self::assertSame($info->holders[0]->mode, $waiter->mode);
        self::assertSame($lock->named()[0] === 'f', $waiter->fair);
        self::assertEqualsWithDelta(20.0, $waiter->left + $waiter->waited, 1.0);
        self::assertTrue($lock->force());
        self::assertTrue($hold->isLost());
    }

    public function testOnlyAnErrorNamesTheHolders(): void
    {
        $hold = $this->locks->lock('k')->acquire();
        $before = $this->commands('lock.info');
        self::assertNull($this->locks->lock('k')->tryAcquire());
        self::assertSame($before, $this->commands('lock.info'));
        try {
            $this->locks->lock('k')->acquire(0.0);
        } catch (NotAcquired $error) {
            self::assertSame([$hold->owner], $error->holders);
        }
    }

    public function testErrorsAreMadeAsOthers(): void
    {
        $cause = new \RuntimeException('the cause');
        foreach ([NotAcquired::class, NotHeld::class, Refused::class, \LockSo\ModuleMissing::class] as $class) {
            $error = new $class('text', 7, $cause);
            self::assertSame(['text', 7, $cause, ''], [$error->getMessage(), $error->getCode(), $error->getPrevious(), $error->reason]);
        }
        self::assertInstanceOf(Refused::class, $error);
    }

    public function testRefused(): void
    {
        $this->redis->set('k', 'no lock');
        try {
            $this->locks->lock('k')->acquire(0.0);
            self::fail('it is a string');
        } catch (Refused $error) {
            self::assertSame('WRONGTYPE', $error->reason);
        }
    }

    public function testRunReturnsWhatTheBodyReturns(): void
    {
        $lock = $this->locks->lock('k');
        self::assertSame(7, $lock->run(fn ($hold) => [$hold->owner] === $this->owners('k') ? 7 : 0));
        self::assertNull($this->info('k'));
        $this->expectException(NotHeld::class);
        $lock->run(fn () => $this->redis->del('k'));
    }

    public function testRunThrowsTheBodysError(): void
    {
        $error = new \DomainException('the body');
        $file = tempnam(sys_get_temp_dir(), 'lock-so-');
        $before = ini_set('error_log', $file);
        foreach ([false, true] as $lost) {
            try {
                $this->locks->lock('k')->run(function ($held) use ($lost, $error, &$hold): void {
                    $hold = $held;
                    $lost && $this->redis->del('k');
                    throw $error;
                });
                self::fail('the error was not thrown');
            } catch (\DomainException $out) {
                self::assertSame($error, $out);
            }
            self::assertNull($this->info('k'));
            $log = file_get_contents($file);
            self::assertSame($lost, str_contains($log, 'lock "k" is not held: the server reported its loss'), $log);
        }
        ini_set('error_log', $before);
        unlink($file);
    }
}
