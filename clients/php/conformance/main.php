<?php

// The conformance runner: main.php phpredis. The wrapper sets LOCK_SO_AUTOLOAD to the path of the autoloader.

declare(strict_types=1);

require getenv('LOCK_SO_AUTOLOAD') ?: __DIR__ . '/../../../build/clients/php/vendor/autoload.php';

if (($argv[1] ?? '') !== 'phpredis') {
    fwrite(STDERR, "usage: runner phpredis\n");
    exit(2);
}
(new LockSo\Conformance\Runner())->serve();
