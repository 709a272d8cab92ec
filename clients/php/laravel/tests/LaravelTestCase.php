<?php

declare(strict_types=1);

namespace LockSo\Laravel\Tests;

use LockSo\Adapters\AdapterTestCase;
use LockSo\Adapters\LaravelApplication;

/** A container with the services of Laravel that the cache needs, and the facade Cache. */
abstract class LaravelTestCase extends AdapterTestCase
{
    protected function setUp(): void
    {
        parent::setUp();
        LaravelApplication::start(self::$server->port);
    }
}
