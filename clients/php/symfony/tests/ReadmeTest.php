<?php

declare(strict_types=1);

namespace LockSo\Symfony\Tests;

use LockSo\Adapters\AdapterTestCase;

final class ReadmeTest extends AdapterTestCase
{
    public function testExampleRuns(): void
    {
        preg_match('/^```php\n(.*?)^```/ms', file_get_contents(__DIR__ . '/../README.md'), $found);
        eval(str_replace('6379', (string) self::$server->port, $found[1]));
        self::assertFalse($lock->isAcquired());
        self::assertSame([], $this->redis->keys('*'));
    }
}
