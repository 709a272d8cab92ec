<?php

declare(strict_types=1);

namespace LockSo;

/** What a consumer of a delayed queue is to do. */
final class Job
{
    /** @internal */
    public function __construct(
        /** What was pushed. */
        public readonly string $value,
        /** How often this was begun: 1 on the first try. */
        public readonly int $tries,
    ) {
    }
}
