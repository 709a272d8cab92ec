<?php

declare(strict_types=1);

namespace LockSo\Laravel\Tests;

use Illuminate\Bus\UniqueLock;
use Illuminate\Support\Facades\Cache;

/** Parts of Laravel that use the locks of the cache: their locks outlive the object, and have owners. */
final class FrameworkTest extends LaravelTestCase
{
    public function testUniqueJobs(): void
    {
        foreach ([0, 60] as $seconds) {
            $job = new class ($seconds) {
                public function __construct(public int $uniqueFor)
                {
                }
            };
            $unique = new UniqueLock(Cache::store());
            self::assertTrue($unique->acquire($job));
            self::assertFalse($unique->acquire($job));
            $unique->release($job);
            self::assertTrue($unique->acquire($job));
            $unique->release($job);
        }
    }

    public function testFunnel(): void
    {
        if (!method_exists(Cache::store(), 'funnel')) {
            self::markTestSkipped('this Laravel has none');
        }
        $funnel = fn () => Cache::funnel('exports')->limit(2)->releaseAfter(60)->block(0);
        $inner = fn () => $funnel()->then(fn () => 'third', fn () => 'full');
        $outer = $funnel()->then(fn () => $funnel()->then($inner, fn () => 'second'), fn () => 'first');
        self::assertSame('full', $outer);
        self::assertSame('third', $inner(), 'they are released');
    }

    public function testWithoutOverlapping(): void
    {
        if (!method_exists(Cache::store(), 'withoutOverlapping')) {
            self::markTestSkipped('this Laravel has none');
        }
        self::assertSame('made', Cache::withoutOverlapping('report', fn () => 'made', 60, 1));
        self::assertSame([], $this->redis->keys('*'));
    }
}
