<?php

declare(strict_types=1);

namespace LockSo\Symfony\Tests;

use LockSo\Symfony\LockStore;
use LockSo\Tests\Server;
use Symfony\Component\Lock\PersistingStoreInterface;
use Symfony\Component\Lock\Test\AbstractStoreTestCase;
use Symfony\Component\Lock\Tests\Store\BlockingStoreTestTrait;
use Symfony\Component\Lock\Tests\Store\ExpiringStoreTestTrait;
use Symfony\Component\Lock\Tests\Store\SharedLockStoreTestTrait;

// Symfony's own tests for stores. The package has one class of them since 7.2; the others are in its sources only.
class_exists(AbstractStoreTestCase::class) || class_alias(\Symfony\Component\Lock\Tests\Store\AbstractStoreTestCase::class, AbstractStoreTestCase::class);

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
