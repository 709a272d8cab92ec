<?php

declare(strict_types=1);

namespace LockSo\Symfony\Tests;

use LockSo\Symfony\LockStore;
use Symfony\Component\Lock\PersistingStoreInterface;
use Symfony\Component\Lock\Tests\Store\BlockingStoreTestTrait;
use Symfony\Component\Lock\Tests\Store\UnserializableTestTrait;

require_once __DIR__ . '/StoreTest.php';

if (trait_exists(UnserializableTestTrait::class)) {
    abstract class PublishedSessionTestCase extends PublishedTestCase
    {
        use BlockingStoreTestTrait;
        use UnserializableTestTrait;
    }
} else {
    abstract class PublishedSessionTestCase extends PublishedTestCase
    {
    }
}

/** Symfony's own tests for stores, with sessions. */
final class SessionStoreTest extends PublishedSessionTestCase
{
    protected function getStore(): PersistingStoreInterface
    {
        return new LockStore(self::$server->client(), session: true);
    }
}
