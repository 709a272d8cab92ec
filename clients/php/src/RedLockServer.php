<?php

declare(strict_types=1);

namespace LockSo;

use Closure;
use RedisException;
use Throwable;

/** One of the servers of a RedLock: its connection, who it is, and what must still be released there. @internal */
final class RedLockServer
{
    /** Why it must not be used: a replica, or the same as another one. */
    public ?string $refusal = null;
    private ?Wire $wire = null;
    private bool $isIdentified = false;
    /** The error of the last attempt to connect. */
    private ?Throwable $error = null;
    private string $role = '';
    /** The id of the server's process, and in a cluster of the node. */
    private ?string $run = null;
    private ?string $node = null;
    private string $cluster = '';
    /** @var array<string, array{string, float, Closure, ?Wire}> by owner: the key, until when, what receives the reply, where it was sent */
    private array $owed = [];

    public function __construct(private Connections $connections)
    {
    }

    public function name(): string
    {
        return $this->connections->name;
    }

    /** Begins to connect, if there is no connection, or one on which nothing has been received for too long. */
    public function connect(): void
    {
        $isSilent = !$this->isIdentified || ($this->wire?->isAwaited() ?? false);
        if ($isSilent && $this->wire?->stream !== null && Clock::now() - $this->wire->since > Connections::PATIENCE) {
            $this->wire->fail("no reply from {$this->name()}");
        }
        if ($this->wire?->stream !== null) {
            return;
        }
        $this->isIdentified = false;
        $this->refusal = $this->error = $this->run = $this->node = null;
        $this->role = '';
        $wire = $this->wire = $this->connections->wire();
        foreach ($this->connections->greeting() as $words) {
            $wire->send($words, function (mixed $reply) use ($wire): void {
                if ($reply instanceof Throwable) {
                    $this->error ??= $reply;
                    $wire->fail($reply->getMessage());
                }
            });
        }
        // HELLO is permitted to all users. Without INFO or CLUSTER the same server is not recognized.
        $wire->send(['HELLO'], function (mixed $reply): void {
            $this->error ??= $reply instanceof RedisException ? $reply : null;
            $this->role = is_array($reply) ? array_column(array_chunk($reply, 2), 1, 0)['role'] ?? '' : '';
        });
        $wire->send(['INFO', 'server'], function (mixed $reply): void {
            $this->run = is_string($reply) && preg_match('/^run_id:(\w+)/m', $reply, $found) ? $found[1] : null;
        });
        $wire->send(['CLUSTER', 'NODES'], function (mixed $reply): void {
            $this->cluster = is_string($reply) ? $reply : '';
            $this->node = preg_match('/^(\w+) .*myself/m', $this->cluster, $found) ? $found[1] : null;
            $this->isIdentified = !$reply instanceof RedisException;
            $this->isIdentified && $this->settle();
        });
    }

    /** Whether it is known who it is, or that it cannot be reached. */
    public function isSettled(): bool
    {
        return $this->isIdentified || $this->wire?->stream === null;
    }

    /** Whether a request can be sent to it now. */
    public function isReady(): bool
    {
        return $this->isIdentified && $this->wire->stream !== null && !$this->wire->isAwaited();
    }

    /** @param list<self> $others */
    public function check(array $others): void
    {
        $this->refusal = $this->role === 'replica' || $this->role === 'slave' ? "{$this->name()} is a replica" : null;
        foreach ($this->isIdentified ? $others : [] as $other) {
            if ($this->run !== null && $this->run === $other->run) {
                $this->refusal = "{$other->name()} and {$this->name()} are the same server";
            } elseif ($this->node !== null && str_contains($other->cluster, $this->node)) {
                $this->refusal = "{$other->name()} and {$this->name()} are nodes of one cluster";
            }
        }
    }

    /**
     * Sends a command; `$received` gets the reply, or the error. While an earlier one has no reply, nothing is sent. A
     * server that must not be used holds nothing. Whether it was sent.
     */
    public function request(array $words, Closure $received): bool
    {
        $isSent = $this->refusal === null && $this->isReady();
        if ($isSent) {
            $this->wire->send($words, $received);
        } elseif ($this->refusal !== null) {
            $received(new NotHeld($this->refusal, reason: 'NOTHELD'));
        } else {
            $received($this->error ?? new RedisException("no reply from {$this->name()}"));
        }
        return $isSent;
    }

    /**
     * Releases what this owner may hold, behind all that was sent before. If the connection is lost, it is sent again on the
     * next one, until `$until` (by Clock). `$received` gets the reply.
     */
    public function release(string $key, string $owner, float $until, Closure $received): void
    {
        $this->owed[$owner] = [$key, $until, $received, null];
        $this->settle();
    }

    /** Whether a release has no reply yet: of this owner, or any. */
    public function owes(?string $owner = null): bool
    {
        $this->owed = array_filter($this->owed, fn (array $one) => Clock::now() < $one[1]);
        return $owner === null ? $this->owed !== [] : isset($this->owed[$owner]);
    }

    private function settle(): void
    {
        foreach ($this->owed as $owner => [$key, $until, $received, $sent]) {
            if (Clock::now() >= $until) {
                unset($this->owed[$owner]);
            } elseif ($this->isIdentified && $this->wire->stream !== null && $sent !== $this->wire) {
                $this->owed[$owner][3] = $this->wire;
                $this->wire->send(['LOCK.RELEASE', $key, $owner], function (mixed $reply) use ($owner, $received): void {
                    if (!$reply instanceof RedisException) {
                        unset($this->owed[$owner]);
                        $received($reply);
                    }
                });
            }
        }
    }

    /** @return resource|null */
    public function stream(): mixed
    {
        return $this->wire?->stream;
    }

    public function isWriting(): bool
    {
        return $this->wire->isWriting();
    }

    public function advance(): void
    {
        $this->wire->advance();
    }

    public function disconnect(): void
    {
        $this->wire?->fail('it was closed');
    }
}
