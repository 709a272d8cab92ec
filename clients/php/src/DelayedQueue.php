<?php

declare(strict_types=1);

namespace LockSo;

use InvalidArgumentException;
use RedisException;

/** A list to which the server pushes values after a delay. Except for consume, what it does takes 2 seconds at most. */
final class DelayedQueue
{
    private string $named;

    /** @internal */
    public function __construct(private Connections $connections, public readonly string $list)
    {
        $this->named = "queue \"$list\"";
    }

    /**
     * Has `$value` pushed to the list in `$delay` seconds, and returns its id. An id that is pending gets the new value and
     * time. Without `$id` it is not repeated after a lost connection, because it may have been pushed.
     *
     * @throws LockError      if the server refuses
     * @throws RedisException if the server cannot be reached
     */
    public function push(string $value, float $delay, ?string $id = null): string
    {
        $delay >= 0 && $delay < INF || throw new InvalidArgumentException("delay must not be negative, and have a limit, not $delay");
        $id !== '' || throw new InvalidArgumentException('id must not be empty');
        !Consumer::isTried($value) || throw new InvalidArgumentException('value must not begin like one that was tried before');
        $words = ['DELAY.PUSH', $this->list, $id ?? '*', (int) ceil($delay * 1000), $value];
        return $this->connections->request($this->list, $words, once: $id === null, named: $this->named);
    }

    /**
     * Removes what is pending under this id. False if it is not pending: it has been delivered, or cancelled, or was never
     * pushed.
     *
     * @throws LockError      if the server refuses
     * @throws RedisException if the server cannot be reached
     */
    public function cancel(string $id): bool
    {
        return $this->connections->request($this->list, ['DELAY.CANCEL', $this->list, $id], named: $this->named) === 1;
    }

    /**
     * The first `$count` (10 by default) of what is pending, in the order of delivery; `left` is in seconds.
     *
     * @return list<array{id: string, left: float, value: string}>
     * @throws LockError      if the server refuses
     * @throws RedisException if the server cannot be reached
     */
    public function list(?int $count = null): array
    {
        $count === null || $count >= 0 || throw new InvalidArgumentException("count must not be negative, not $count");
        $words = ['DELAY.LIST', $this->list, ...($count === null ? [] : ['COUNT', $count])];
        $entry = fn (array $one): array => ['id' => $one[0], 'left' => $one[1] / 1000, 'value' => $one[2]];
        return array_map($entry, $this->connections->request($this->list, $words, named: $this->named));
    }

    /**
     * Calls `$handler` with one Job after the other, until `$stop` returns true: it is called between the jobs, and once a
     * second. A job whose handler throws is tried again after `$backoff` seconds, then after twice as long, and so on;
     * and so is one that takes longer than `$timeout`, or whose consumer dies. After `$maxTries` tries it is moved to
     * the list of failed jobs.
     *
     * @param callable(Job): mixed       $handler
     * @param (callable(): bool)|null    $stop
     * @throws Closed         if the Locks are closed
     * @throws Refused        if the list is no list, or a command is not permitted
     * @throws RedisException if the server was never reached
     */
    public function consume(
        callable $handler,
        float $timeout = 60.0,
        int $maxTries = 5,
        float $backoff = 1.0,
        ?callable $stop = null,
    ): void {
        Lock::checkPositive('timeout', $timeout);
        Lock::checkPositive('backoff', $backoff);
        $maxTries >= 1 || throw new InvalidArgumentException("maxTries must be at least 1, not $maxTries");
        $consumer = new Consumer($this->connections, $this->list, $this->named, $handler(...), $timeout, $maxTries, $backoff);
        while ($stop === null || !$stop()) {
            $consumer->step();
        }
    }
}
