<?php

declare(strict_types=1);

namespace LockSo\Symfony;

use LockSo\Hold;

/** What a key remembers of its lock. Without a session it can be serialized: the owner's name is what holds the lock. @internal */
final class State
{
    public function __construct(
        public readonly string $owner,
        public readonly Mode $mode,
        public readonly ?int $token = null,
        /** Of a session. */
        public readonly ?Hold $hold = null,
    ) {
    }
}
