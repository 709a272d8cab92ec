<?php

// Laravel's own tests for locks in Redis, with the store of lock.so in the place of Laravel's. They are in Laravel's sources
// only, and expect a whole application.

declare(strict_types=1);

namespace Orchestra\Testbench {
    use Illuminate\Container\Container;
    use LockSo\Adapters\LaravelApplication;
    use LockSo\Laravel\Tests\LaravelTestCase;

    abstract class TestCase extends LaravelTestCase
    {
        protected Container $app;

        protected function setUp(): void
        {
            parent::setUp();
            $this->app = LaravelApplication::start(self::$server->port, 'lock-so');
        }
    }
}

namespace Illuminate\Foundation\Testing\Concerns {
    trait InteractsWithRedis
    {
        protected function setUpRedis(): void
        {
        }

        protected function tearDownRedis(): void
        {
        }
    }
}

namespace LockSo\Laravel\Tests {
    use Illuminate\Tests\Integration\Cache\RedisCacheLockTest;
    use PHPUnit\Framework\TestCase;

    if (getenv('LARAVEL_TESTS')) {
        require getenv('LARAVEL_TESTS') . '/Integration/Cache/RedisCacheLockTest.php';

        final class PublishedTest extends RedisCacheLockTest
        {
        }
    } else {
        final class PublishedTest extends TestCase
        {
            public function testLaravelsOwnTests(): void
            {
                self::markTestSkipped('LARAVEL_TESTS is not set');
            }
        }
    }
}
