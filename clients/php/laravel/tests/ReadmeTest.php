<?php

declare(strict_types=1);

namespace LockSo\Laravel\Tests;

final class ReadmeTest extends LaravelTestCase
{
    public function testExampleRuns(): void
    {
        preg_match('/^```php\n(.*?)^```/ms', file_get_contents(__DIR__ . '/../README.md'), $found);
        eval($found[1]);
        self::assertSame('what is made while the lock is held', $made);
        self::assertSame([], $this->redis->keys('*'));
    }

    /** The store of the README is the one of the tests. */
    public function testConfiguration(): void
    {
        preg_match('/^```php no-run\n(.*?)^```/ms', file_get_contents(__DIR__ . '/../README.md'), $found);
        $config = eval("return [$found[1]];");
        self::assertSame('lock-so', $config['stores']['locks']['driver']);
        $app = \Illuminate\Container\Container::getInstance();
        self::assertSame($config['stores']['locks'], $app['config']['cache.stores.locks']);
    }
}
