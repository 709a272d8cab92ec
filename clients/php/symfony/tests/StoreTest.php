<?php

declare(strict_types=1);

namespace LockSo\Symfony\Tests;

use LockSo\Symfony\LockStore;
use LockSo\Tests\Server;
use PHPUnit\Framework\TestCase;
use Symfony\Component\Lock\PersistingStoreInterface;
use Symfony\Component\Lock\Test\AbstractStoreTestCase;
use Symfony\Component\Lock\Tests\Store\BlockingStoreTestTrait;
use Symfony\Component\Lock\Tests\Store\ExpiringStoreTestTrait;
use Symfony\Component\Lock\Tests\Store\SharedLockStoreTestTrait;

abstract class MissingTestCase extends TestCase
{
    public function testSymfonysOwnTests(): void
    {
        self::markTestSkipped('SYMFONY_LOCK_TESTS is not set');
    }
}

// Symfony's own tests for stores. Newer packages have one class of them; the others are in its sources only.
if (!class_exists(AbstractStoreTestCase::class)) {
    $older = \Symfony\Component\Lock\Tests\Store\AbstractStoreTestCase::class;
    class_alias(class_exists($older) ? $older : MissingTestCase::class, AbstractStoreTestCase::class);
}

abstract class PublishedTestCase extends AbstractStoreTestCase
{
    protected static Server $server;

    public static function setUpBeforeClass(): void
    {
        self::$server = new Server();
    }

    public static function tearDownAfterClass(): void
    {
        self::$server->stop();
    }

    protected function getStore(): PersistingStoreInterface
    {
        return new LockStore(self::$server->client());
    }
}

if (trait_exists(SharedLockStoreTestTrait::class)) {
    final class StoreTest extends PublishedTestCase
    {
        use BlockingStoreTestTrait;
        use ExpiringStoreTestTrait;
        use SharedLockStoreTestTrait;

        protected function getClockDelay(): int
        {
            return 250000;
        }
    }
} else {
    final class StoreTest extends PublishedTestCase
    {
    }
}
