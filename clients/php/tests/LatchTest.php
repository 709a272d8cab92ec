<?php

declare(strict_types=1);

namespace LockSo\Tests;

use InvalidArgumentException;
use LockSo\Latch;
use LockSo\Locks;
use LockSo\Refused;
use RedisException;

final class LatchTest extends LocksTestCase
{
    public function testItOpensWhenItIsCountedDown(): void
    {
        $latch = $this->locks->latch('l');
        self::assertTrue($latch->wait(0.0), 'it is not set');
        $latch->set(3);
        self::assertSame(-1, $this->redis->pttl('l'));
        self::assertFalse($latch->wait(0.0));
        self::assertSame([3, 2, 0, 0], [$latch->count(), $latch->countDown(), $latch->countDown(2), $latch->count()]);
        self::assertTrue($latch->wait());
    }

    public function testAllThatWaitAreNotified(): void
    {
        $latch = $this->locks->latch('l');
        $this->redis->rawCommand('CONFIG', 'RESETSTAT');
        $latch->set(1, lease: 60.0);
        self::assertGreaterThan(0, $this->redis->pttl('l'));
        foreach ([1, 2] as $_) {
            $this->meanwhile(function (): void {
                $open = Locks::on(self::$server->client(), maxBlock: 0.2)->latch('l')->wait(20.0);
                self::$server->client()->rPush('open', $open ? 'yes' : 'no');
            });
        }
        // In several calls.
        $this->waitFor(fn () => $this->commands('latch.wait') >= 5, 'the next calls');
        $this->waitFor(fn () => (int) $this->redis->info('clients')['blocked_clients'] === 2, 'two waiters');
        $latch->set(0);
        self::assertSame(['open', 'yes'], $this->redis->blPop(['open'], 20));
        self::assertSame(['open', 'yes'], $this->redis->blPop(['open'], 20));
    }

    public function testAWaitEndsInTime(): void
    {
        $latch = $this->locks->latch('l');
        $latch->set(1);
        self::assertGreaterThan(0.2, $this->timed(fn () => self::assertFalse($latch->wait(0.2))));
        self::$server->signal(SIGSTOP);
        try {
            self::assertLessThan(0.6, $this->timed(fn () => self::assertFalse($latch->wait(0.3))));
            $this->expectException(RedisException::class);
            $latch->wait(0.0);
        } finally {
            self::$server->signal(SIGCONT);
        }
    }

    public function testALockIsNoLatch(): void
    {
        $hold = $this->locks->lock('l')->acquire();
        $this->expectException(Refused::class);
        $this->locks->latch('l')->wait(5.0);
    }

    /** @dataProvider badOptions */
    public function testAnErrorNamesTheOption(callable $use, string $text): void
    {
        $this->expectExceptionObject(new InvalidArgumentException($text));
        $use($this->locks->latch('l'));
    }

    /** @return array<string, array{callable(Latch): mixed, string}> */
    public function badOptions(): array
    {
        return [
            'count' => [fn ($latch) => $latch->set(-1), 'count must not be negative, not -1'],
            'by' => [fn ($latch) => $latch->countDown(0), 'by must be at least 1, not 0'],
            'lease' => [fn ($latch) => $latch->set(1, lease: 0.0), 'lease must be greater than 0, not 0'],
            'a short lease' => [fn ($latch) => $latch->set(1, lease: 0.0005), 'lease must be at least 1 ms, not 0.0005 s'],
            'wait' => [fn ($latch) => $latch->wait(-1.0), 'wait must not be negative, not -1'],
        ];
    }
}
