<?php

declare(strict_types=1);

namespace LockSo\Tests;

use InvalidArgumentException;
use LockSo\Lock;
use LockSo\Locks;
use LockSo\NotAcquired;
use LockSo\NotHeld;
use RedisException;

/** Locks of two servers. */
final class CombineTest extends LocksTestCase
{
    private static Server $other;
    /** On the server whose name is less, and on the other one. */
    private Locks $first;
    private Locks $second;

    public static function setUpBeforeClass(): void
    {
        parent::setUpBeforeClass();
        self::$other = new Server();
        if (strcmp((string) self::$server->port, (string) self::$other->port) > 0) {
            [self::$server, self::$other] = [self::$other, self::$server];
        }
    }

    public static function tearDownAfterClass(): void
    {
        parent::tearDownAfterClass();
        self::$other->stop();
    }

    protected function setUp(): void
    {
        parent::setUp();
        self::$other->client()->flushAll();
        $this->first = $this->locks;
        $this->second = Locks::on(self::$other->client());
    }

    private function lock(mixed ...$options): Lock
    {
        return Locks::combine($this->second->semaphore('s', 2, 2), $this->first->write('w', ...$options), $this->first->lock('l'));
    }

    /** Who holds what, as the server says. */
    private function holders(): array
    {
        return array_map(fn (string $key) => count($this->owners($key)), ['l', 'w'])
            + [2 => count(self::$other->client()->rawCommand('LOCK.INFO', 's')[3] ?? [])];
    }

    public function testAllOrNone(): void
    {
        $lock = $this->lock(fenced: true);
        $hold = $lock->acquire(0.0);
        self::assertSame(['l', 'w', 's'], $hold->keys);
        self::assertSame([['l'], ['w'], ['s']], array_column($hold->holds, 'keys'));
        self::assertSame([$hold->holds[0]->owner, null], [$hold->owner, $hold->token]);
        self::assertIsInt($hold->holds[1]->token);
        self::assertSame([1, 1, 1], $this->holders());
        self::assertTrue($lock->locked());
        self::assertCount(3, $lock->info()->holders);
        self::assertNull($lock->tryAcquire());
        self::assertFalse($hold->isLost());
        $hold->renew(60.0);
        self::assertGreaterThan(50000, min($this->redis->pttl('w'), self::$other->client()->pttl('s')));
        $hold->release();
        self::assertSame([0, 0, 0], $this->holders());
        $this->expectExceptionMessage('it was released before');
        $hold->release();
    }

    public function testAWaitThatFailsHoldsNothing(): void
    {
        $held = $this->second->semaphore('s', 2)->acquire();
        $named = "semaphore \"s\" was not acquired within 0.3 s: held by $held->owner (this process)";
        try {
            $this->lock()->acquire(0.3);
            self::fail('it is held');
        } catch (NotAcquired $error) {
            self::assertSame($named, $error->getMessage());
        }
        self::assertSame([0, 0, 1], $this->holders());
        self::assertNull($this->lock()->tryAcquire());
        self::assertSame([0, 0, 1], $this->holders());
    }

    public function testAWaitEndsInTimeIfAServerIsSilent(): void
    {
        self::$other->signal(SIGSTOP);
        try {
            $took = $this->timed(function (): void {
                try {
                    $this->lock()->acquire(0.3);
                    self::fail('a server does not respond');
                } catch (NotAcquired $error) {
                    self::assertInstanceOf(RedisException::class, $error->getPrevious());
                }
            });
            self::assertLessThan(0.6, $took);
            self::assertNull($this->info('l') ?? $this->info('w'));
        } finally {
            self::$other->signal(SIGCONT);
        }
    }

    public function testAWaitEndsInTimeIfWhatIsHeldCannotBeReleased(): void
    {
        $held = $this->second->lock('last')->acquire();
        $pid = $this->redis->info('server')['process_id'];
        $locks = array_map(fn (string $key) => $this->first->lock($key), ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']);
        $this->meanwhile(function () use ($pid): void {
            usleep(300_000);
            posix_kill($pid, SIGSTOP);
        });
        try {
            $lock = Locks::combine($this->second->lock('last'), ...$locks);
            self::assertLessThan(0.8, $this->timed(fn () => self::assertNull($lock->tryAcquire(0.6))));
        } finally {
            posix_kill($pid, SIGCONT);
        }
        // What could not be released is released at the next use.
        $this->first->lock('other')->acquire()->release();
        self::assertNull($this->info('a') ?? $this->info('h'));
    }

    public function testAWaitThatFailsDoesNotLimitWhatComesNext(): void
    {
        $held = $this->second->lock('last')->acquire();
        self::assertNull(Locks::combine($this->first->lock('l'), $this->second->lock('last'))->tryAcquire());
        $pid = $this->redis->info('server')['process_id'];
        usleep(100_000);
        posix_kill($pid, SIGSTOP);
        $this->meanwhile(function () use ($pid): void {
            usleep(200_000);
            posix_kill($pid, SIGCONT);
        });
        self::assertFalse($this->first->lock('l')->locked());
    }

    /** Its lease is shorter than the wait for the next one. */
    public function testWhatIsHeldIsRenewedDuringTheWait(): void
    {
        $held = $this->second->semaphore('s', 2)->acquire();
        $this->meanwhile(function (): void {
            $this->lock(lease: 0.6)->run(fn ($hold) => self::$server->client()->rPush('got', $hold->holds[1]->owner), 20.0);
            self::$server->client()->rPush('done', 1);
        });
        $this->waitFor(fn () => $this->commands('lock.renew') >= 3, 'renewals');
        $before = $this->owners('w');
        self::assertCount(1, $before);
        // Lost while it waits: it begins again.
        $this->redis->rawCommand('LOCK.FORCE', 'w');
        $this->waitFor(fn () => !in_array($this->owners('w'), [[], $before], true), 'the next owner');
        $held->release();
        self::assertNotEmpty($this->redis->blPop(['done'], 20));
        self::assertNotSame($before[0], $this->redis->lPop('got'));
        self::assertSame([0, 0, 0], $this->holders());
    }

    public function testALossOfOneIsALoss(): void
    {
        foreach (['force', 'close'] as $how) {
            $hold = $this->lock()->acquire(0.0);
            $how === 'force' ? $this->first->write('w')->force() : $this->second->close();
            self::assertTrue($hold->isLost(query: $how === 'force'));
            try {
                $hold->keep();
                self::fail('it is lost');
            } catch (NotHeld) {
                $this->addToAssertionCount(1);
            }
            try {
                $hold->release();
                self::fail('it is lost');
            } catch (NotHeld $error) {
                self::assertSame([$how === 'force' ? 'w' : 's'], $error->keys);
                self::assertSame([0, 0, 0], $this->holders(), 'the others are released');
            }
        }
    }

    public function testAForgottenHoldIsReleased(): void
    {
        $hold = $this->lock()->acquire();
        $hold = null;
        self::assertSame([0, 0, 0], $this->holders());
        self::assertSame(7, $this->lock()->run(fn () => 7));
        self::assertSame([0, 0, 0], $this->holders());
    }

    public function testMembersAreEnteredAgain(): void
    {
        $lock = Locks::combine($this->second->lock('a', reentrant: true), $this->first->lock('a', reentrant: true));
        $outer = $lock->acquire();
        $inner = $lock->acquire(0.0);
        $outer->release();
        self::assertSame([$inner->owner], $this->owners('a'));
        $inner->release();
        self::assertNull($this->info('a'));
    }

    public function testWhatCannotBeCombined(): void
    {
        $all = [
            'locks must not be empty' => [],
            'locks: lock "k" is there twice' => [$this->first->lock('k'), $this->locks->lock('k')],
        ];
        foreach ($all as $text => $locks) {
            try {
                Locks::combine(...$locks);
                self::fail($text);
            } catch (InvalidArgumentException $error) {
                self::assertSame($text, $error->getMessage());
            }
        }
        Locks::combine($this->first->lock('k'), $this->second->lock('k'))->acquire(0.0)->release();
        $this->expectExceptionMessage('guard: a command runs on one server');
        $this->lock()->acquire()->guard('PING');
    }
}
