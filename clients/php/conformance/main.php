<?php

// The conformance runner: main.php phpredis. The autoloader is the first thing that the wrapper names.

declare(strict_types=1);

require getenv('LOCK_SO_AUTOLOAD') ?: __DIR__ . '/../../../build/clients/php/vendor/autoload.php';

if (($argv[1] ?? '') !== 'phpredis') {
    fwrite(STDERR, "usage: runner phpredis\n");
    exit(2);
}
(new LockSo\Conformance\Runner())->serve();
