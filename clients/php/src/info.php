<?php

declare(strict_types=1);

namespace LockSo;

/** Who holds a lock, and who waits for it: of a lock of several keys what all of them have. */
final class LockInfo
{
    /** @internal */
    public function __construct(
        /** @var list<Holder> */
        public readonly array $holders = [],
        /** How many wait. */
        public readonly int $waiting = 0,
        /** @var list<Waiter> the first of them */
        public readonly array $waiters = [],
    ) {
    }

    /** From a reply of LOCK.INFO. @internal */
    public static function of(string $key, ?array $reply): self
    {
        $map = fn (array $flat): array => array_column(array_chunk($flat, 2), 1, 0);
        $fields = $map($reply ?? []) + ['holders' => [], 'waiting' => 0, 'waiters' => []];
        return new self(
            array_map(fn (array $flat) => Holder::of($key, $map($flat)), $fields['holders']),
            $fields['waiting'],
            array_map(fn (array $flat) => Waiter::of($key, $map($flat)), $fields['waiters']),
        );
    }

    /** @param list<self> $parts @internal */
    public static function merge(array $parts): self
    {
        $all = fn (string $field): array => array_merge(...array_column($parts, $field));
        return new self($all('holders'), array_sum(array_column($parts, 'waiting')), $all('waiters'));
    }
}

/** A holder of a lock's key. */
final class Holder
{
    /** @internal */
    public function __construct(
        public readonly string $key,
        public readonly string $owner,
        /** exclusive, write, read or semaphore */
        public readonly string $mode,
        /** How many holds, or permits, it has. */
        public readonly int $holds,
        /** Seconds until the lease expires; null if it never does. */
        public readonly ?float $left,
        /** Whether a connection keeps it. */
        public readonly bool $session,
    ) {
    }

    /** @internal */
    public static function of(string $key, array $fields): self
    {
        $left = $fields['pttl'] < 0 ? null : $fields['pttl'] / 1000;
        return new self($key, $fields['owner'], $fields['mode'], $fields['holds'], $left, is_int($fields['session']));
    }
}

/** A waiter for a lock's key. */
final class Waiter
{
    /** @internal */
    public function __construct(
        public readonly string $key,
        public readonly string $owner,
        /** exclusive, write, read or semaphore */
        public readonly string $mode,
        public readonly bool $fair,
        /** For how many seconds it has waited. */
        public readonly float $waited,
        /** For how many seconds it will still wait; null has no limit. */
        public readonly ?float $left,
    ) {
    }

    /** @internal */
    public static function of(string $key, array $fields): self
    {
        $left = is_int($fields['left']) ? $fields['left'] / 1000 : null;
        return new self($key, $fields['owner'], $fields['mode'], $fields['fair'] === 1, $fields['waited'] / 1000, $left);
    }
}
