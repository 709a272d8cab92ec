<?php

declare(strict_types=1);

namespace LockSo\Symfony;

/** How a read-write lock is held. @internal */
enum Mode: string
{
    case Read = 'READ';
    case Write = 'WRITE';
}
