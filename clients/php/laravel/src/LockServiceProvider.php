<?php

declare(strict_types=1);

namespace LockSo\Laravel;

use Illuminate\Support\ServiceProvider;
use LockSo\Locks;

/** Registers the cache driver `lock-so`. If the container has `LockSo\Locks`, it waits with these. */
final class LockServiceProvider extends ServiceProvider
{
    public function register(): void
    {
        $this->callAfterResolving('cache', static function ($cache): void {
            // Laravel binds it to the CacheManager.
            $cache->extend('lock-so', function ($app, array $config) {
                $connection = $config['connection'] ?? 'default';
                // Since Laravel 13.
                $classes = method_exists($this, 'getSerializableClasses') ? [$this->getSerializableClasses($config)] : [];
                $store = new LockStore($app['redis'], $this->getPrefix($config), $connection, ...$classes);
                $store->setLockConnection($config['lock_connection'] ?? $connection);
                $store->setLocks($app->bound(Locks::class) ? $app->make(Locks::class) : null);
                return $this->repository($store, $config);
            });
        });
    }
}
