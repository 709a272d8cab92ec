<?php

// Needs these environment variables: LOCK_SO_AUTOLOAD (composer's autoload.php), MODULE (lock.so), SERVER (the
// program).

declare(strict_types=1);

require getenv('LOCK_SO_AUTOLOAD') ?: throw new RuntimeException('LOCK_SO_AUTOLOAD is not set: use make test-client-php');
