<?php

declare(strict_types=1);

namespace LockSo\Tests;

use InvalidArgumentException;
use LockSo\Closed;
use LockSo\Locks;
use LockSo\NotAcquired;
use LockSo\NotHeld;
use RedisException;

/** Entering a lock again that the process holds. */
final class ReentryTest extends LocksTestCase
{
    public function testItIsEnteredAgainWithoutACommand(): void
    {
        foreach (['lock', 'fair', 'read', 'write', 'multi'] as $kind) {
            $make = fn () => $this->locks->$kind($kind === 'multi' ? ['k', 'l'] : 'k', reentrant: true);
            $outer = $make()->acquire();
            $before = $this->redis->info('stats')['total_commands_processed'];
            $inner = $make()->acquire(0.0);
            self::assertSame($before + 1, $this->redis->info('stats')['total_commands_processed'], $kind);
            self::assertSame($outer->owner, $inner->owner);
            $outer->release();
            self::assertSame([$inner->owner], $this->owners('k'), 'it is released with the last hold');
            self::assertFalse($inner->isLost());
            $inner->renew();
            $inner->release();
            self::assertNull($this->info('k'));
            $this->releasedBefore($outer, $inner);
        }
    }

    private function releasedBefore(mixed ...$holds): void
    {
        foreach ($holds as $hold) {
            try {
                $hold->release();
                self::fail('it was released before');
            } catch (NotHeld $error) {
                self::assertStringEndsWith('it was released before', $error->getMessage());
            }
        }
    }

    public function testAForgottenHoldIsOneOfThem(): void
    {
        $lock = $this->locks->lock('k', fenced: true, reentrant: true);
        $outer = $lock->acquire();
        $inner = $lock->acquire();
        self::assertSame($outer->token, $inner->token);
        $outer = null;
        self::assertFalse($inner->isLost());
        $inner = null;
        self::assertNull($this->info('k'));
    }

    public function testAnotherLockIsNotEntered(): void
    {
        $hold = $this->locks->write('k', reentrant: true)->acquire();
        foreach ([
            $this->locks->write('k'),
            $this->locks->read('k', reentrant: true),
            $this->locks->multi(write: ['k'], reentrant: true),
            Locks::on(self::$server->client())->write('k', reentrant: true),
        ] as $other) {
            self::assertNull($other->tryAcquire());
        }
        $hold->release();
        self::assertNotSame($hold->owner, $this->locks->write('k', reentrant: true)->acquire()->owner);
    }

    public function testAForkDoesNotEnter(): void
    {
        $hold = $this->locks->lock('k', reentrant: true)->acquire();
        $this->meanwhile(function (): void {
            $entered = $this->locks->lock('k', reentrant: true)->tryAcquire() !== null;
            self::$server->client()->rPush('entered', $entered ? 'yes' : 'no');
        });
        self::assertSame(['entered', 'no'], $this->redis->blPop(['entered'], 20));
        $hold->release();
    }

    public function testWhatIsLostIsNotEntered(): void
    {
        $lock = $this->locks->lock('k', reentrant: true);
        $outer = $lock->acquire();
        $inner = $lock->acquire();
        $lock->force();
        self::assertTrue($inner->isLost());
        try {
            $lock->acquire();
            self::fail('the outer hold is lost');
        } catch (NotHeld $error) {
            self::assertSame('lock "k" is not held: the outer hold is lost', $error->getMessage());
        }
        foreach ([$inner, $outer] as $hold) {
            try {
                $hold->release();
                self::fail('it is lost');
            } catch (NotHeld) {
                self::assertTrue($hold->isLost());
            }
        }
        $lock->acquire(0.0)->release();
    }

    /** It may have been executed. */
    public function testWhatWasToBeReleasedIsNotEntered(): void
    {
        $lock = $this->locks->lock('k', lease: 0.3, session: true, reentrant: true);
        $outer = $lock->acquire();
        self::$server->signal(SIGSTOP);
        try {
            $outer->release();
            self::fail('the server does not respond');
        } catch (RedisException) {
            self::$server->signal(SIGCONT);
        }
        $this->waitFor(fn () => $this->info('k') === null, 'the end of the session');
        $next = $lock->acquire(0.0);
        self::assertSame([$next->owner], $this->owners('k'));
        self::assertNotSame($outer->owner, $next->owner);
    }

    public function testClosedLocksAreNotEntered(): void
    {
        $lock = $this->locks->lock('k', reentrant: true);
        $hold = $lock->acquire();
        self::$server->signal(SIGSTOP);
        $this->locks->close(0.1);
        self::$server->signal(SIGCONT);
        $this->expectException(Closed::class);
        $lock->acquire();
    }

    public function testATokenInsideNeedsOneOutside(): void
    {
        $hold = $this->locks->lock('k', reentrant: true)->acquire();
        $this->expectExceptionObject(new InvalidArgumentException('fenced: the outer hold has no token'));
        $this->locks->lock('k', fenced: true, reentrant: true)->acquire();
    }

    public function testWithoutItTheProcessWaitsForItself(): void
    {
        $hold = $this->locks->lock('k')->acquire();
        $this->expectExceptionObject(
            new NotAcquired("lock \"k\" was not acquired within 0.05 s: held by $hold->owner (this process)"),
        );
        $this->locks->lock('k')->acquire(0.05);
    }
}
