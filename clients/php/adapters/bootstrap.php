<?php

// For the tests of the adapters. Needs these environment variables: LOCK_SO_AUTOLOAD (composer's autoload.php), MODULE
// (lock.so), SERVER (the program); and Symfony's and Laravel's packages in the include path. SYMFONY_LOCK_TESTS: the folder
// Tests of Symfony Lock's sources, whose tests are run too. LARAVEL_TESTS: the same of Laravel's sources, the folder tests.

declare(strict_types=1);

require getenv('LOCK_SO_AUTOLOAD') ?: throw new RuntimeException('LOCK_SO_AUTOLOAD is not set: use make test-adapters-php');

spl_autoload_register(static function (string $class): void {
    $folders = [
        'LockSo\\Symfony\\Tests\\' => __DIR__ . '/../symfony/tests',
        'LockSo\\Symfony\\' => __DIR__ . '/../symfony/src',
        'LockSo\\Laravel\\Tests\\' => __DIR__ . '/../laravel/tests',
        'LockSo\\Laravel\\' => __DIR__ . '/../laravel/src',
        'LockSo\\Adapters\\' => __DIR__,
        'Illuminate\\Bus\\' => stream_resolve_include_path('Illuminate/Bus'),
        'Illuminate\\Queue\\' => stream_resolve_include_path('Illuminate/Queue'),
        'Symfony\\Component\\Lock\\Tests\\' => getenv('SYMFONY_LOCK_TESTS'),
    ];
    foreach ($folders as $prefix => $folder) {
        $file = $folder . '/' . strtr(substr($class, strlen($prefix)), '\\', '/') . '.php';
        if (str_starts_with($class, $prefix) && is_file($file)) {
            require $file;
            return;
        }
    }
});

foreach (['Symfony/Component/Lock', 'Illuminate/Cache', 'Illuminate/Redis', 'Illuminate/Container', 'Illuminate/Events'] as $package) {
    require_once "$package/autoload.php";
}
