<?php

declare(strict_types=1);

namespace LockSo\Adapters;

use Illuminate\Cache\CacheManager;
use Illuminate\Container\Container;
use Illuminate\Redis\RedisManager;
use Illuminate\Support\Facades\Facade;
use LockSo\Laravel\LockServiceProvider;

/** Laravel's services for the cache, without the rest of the framework, as an application has them. */
final class LaravelApplication
{
    /** The facade Cache uses these from now on. The store `locks` is that of lock.so, `redis` Laravel's own, unless `$driver` is another one. */
    public static function start(int $port, string $driver = 'redis'): Container
    {
        $app = new Container();
        Container::setInstance($app);
        $connection = ['host' => '127.0.0.1', 'port' => $port, 'timeout' => 2.0];
        $databases = [
            'options' => ['prefix' => 'app_'],
            'default' => $connection + ['database' => 0],
            'cache' => $connection + ['database' => 1],
        ];
        $app->instance('config', self::config([
            'cache.default' => 'locks',
            'cache.prefix' => 'cache:',
            'cache.stores.locks' => ['driver' => 'lock-so', 'connection' => 'cache', 'lock_connection' => 'default'],
            'cache.stores.redis' => ['driver' => $driver, 'connection' => 'cache', 'lock_connection' => 'default'],
        ]));
        $app->singleton('redis', fn () => new RedisManager($app, 'phpredis', $databases));
        $app->singleton('cache', fn () => new CacheManager($app));
        (new LockServiceProvider($app))->register();
        Facade::clearResolvedInstances();
        Facade::setFacadeApplication($app);
        return $app;
    }

    /** What the cache needs of Laravel's configuration, by names with dots. */
    private static function config(array $values): \ArrayObject
    {
        return new class ($values) extends \ArrayObject {
            public function offsetGet(mixed $name): mixed
            {
                return $this->offsetExists($name) ? parent::offsetGet($name) : null;
            }

            public function get(string $name, mixed $default = null): mixed
            {
                return $this[$name] ?? $default;
            }

            public function set(string $name, mixed $value): void
            {
                $this[$name] = $value;
            }
        };
    }
}
