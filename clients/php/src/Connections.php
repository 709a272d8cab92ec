<?php

declare(strict_types=1);

namespace LockSo;

use Closure;
use RedisException;
use Throwable;

/**
 * Connections of our own, never the program's: one to each server that is needed, since a process waits for one thing at a
 * time, and one for each session.
 */
final class Connections
{
    /** Seconds until a server that says nothing is taken for dead. */
    public const PATIENCE = 2.0;

    /** Whether the last call has sent something that was not answered. */
    public bool $unsure = false;
    /** @var list<Connection> */
    private array $idle = [];
    /** @var array<int, string> who has a cluster's slot, as far as known */
    private array $nodes = [];
    /** @var list<array{Withdrawal, float}> what could not be told; until when it matters */
    private array $owed = [];
    private int $pid;

    /**
     * `$find` gets this object and returns a connection to the master, or to any node of a cluster. `$scheme` is 'tls://' or
     * empty, `$auth` a password or [user, password], `$timeout` the limit for connecting in seconds. One command blocks for
     * `$maxBlock` seconds at most; then the request is sent again, so that a server that stopped responding is noticed.
     */
    public function __construct(
        private Closure $find,
        private string $scheme = '',
        private mixed $auth = null,
        private int $db = 0,
        private float $timeout = self::PATIENCE,
        private array $context = [],
        public readonly float $maxBlock = 30.0,
    ) {
        $this->pid = getmypid();
    }

    /**
     * Asks until it is answered: over lost connections, redirections, and servers that are not ready; once at least, and
     * not again after `$until` (by Clock). `$words` makes the command, and says how many seconds it may take. A session's
     * call uses the connection of `$binding`, and leaves there the one that was answered.
     *
     * @param Closure(): array{list<string|int>, float} $words
     * @throws LockError
     * @throws RedisException
     */
    public function call(string $key, Closure $words, float $until, ?Binding $binding = null): mixed
    {
        $this->unsure = false;
        $redirections = 0;
        $pause = 0.02;
        $asking = null;
        while (true) {
            $began = Clock::now();
            $connection = null;
            $sent = false;
            try {
                $connection = $binding?->take() ?? $this->take($key, $asking);
                $command = $words();
                $sent = true;
                $reply = $connection->ask(...$command);
                $this->keep($connection, $binding);
                return $reply;
            } catch (LockError $trouble) {
                $asking = $connection === null ? null : $this->redirection($trouble, $connection);
                if ($asking === null && !($trouble instanceof Refused && $trouble->isTransient())) {
                    $connection === null || $this->keep($connection, $binding);
                    throw $trouble;
                }
                $atOnce = $asking !== null && ++$redirections <= 5;
                // What was granted then is the new master's to say.
                $this->unsure = $this->unsure || $trouble->reason === 'UNBLOCKED';
            } catch (RedisException $trouble) {
                $asking = null;
                // The server may have closed it long ago.
                $atOnce = $connection !== null && !$connection->fresh && Clock::now() - $began < 0.5;
                $this->unsure = $this->unsure || $sent;
            } catch (Throwable $raised) {
                // By a signal's handler of the program. Nobody is to wait on it any more.
                $connection?->close();
                throw $raised;
            }
            if ($asking === null) {
                $connection?->close();
                // What else is idle is of the same age, and the slots may have moved.
                $this->forget();
            }
            if ($atOnce) {
                continue;
            }
            $now = Clock::now();
            if ($now >= $until) {
                throw $trouble;
            }
            $pause = $now - $began > 1.0 ? 0.02 : $pause;
            Clock::sleep(min($pause, $until - $now));
            $pause = min(2 * $pause, 0.5);
        }
    }

    /** Connects and logs in, without keeping the connection. */
    public function open(string $address): Connection
    {
        $scheme = str_starts_with($address, '/') || str_contains($address, '://') ? '' : $this->scheme;
        $connection = Connection::open($scheme . $address, $this->timeout, $this->context);
        if (($this->auth ?? false) !== false) {
            $connection->ask(['AUTH', ...(array) $this->auth], self::PATIENCE);
        }
        if ($this->db !== 0) {
            $connection->ask(['SELECT', $this->db], self::PATIENCE);
        }
        $connection->fresh = true;
        return $connection;
    }

    /** Keeps the connection, which nobody uses, for the next call. */
    public function give(Connection $connection): void
    {
        $this->idle = [$connection, ...array_slice($this->idle, 0, 7)];
    }

    /** Tells it at the next occasion, until `$until` (by Clock): before the next acquisition, or in the end. */
    public function owe(Withdrawal $withdrawal, float $until): void
    {
        $this->owed[] = [$withdrawal, $until];
    }

    /** Tries for `$patience` seconds to tell what is owed. */
    public function settle(float $patience = 0.5): void
    {
        $owed = $this->own() ? $this->owed : [];
        $this->owed = [];
        $end = Clock::now() + $patience;
        foreach ($owed as $i => [$withdrawal, $until]) {
            try {
                Clock::now() > $until || $withdrawal->tell($this, $end);
            } catch (LockError) {
                // An answer.
            } catch (RedisException) {
                $this->owed = array_slice($owed, $i);
                return;
            }
        }
    }

    public function __destruct()
    {
        $this->settle(self::PATIENCE);
    }

    /** Whether this is the process that has made it, and not a fork: that makes connections of its own. */
    private function own(): bool
    {
        return $this->pid === getmypid();
    }

    private function keep(Connection $connection, ?Binding $binding): void
    {
        $binding === null ? $this->give($connection) : $binding->connection = $connection;
    }

    private function take(string $key, ?string $asking): Connection
    {
        if (!$this->own()) {
            $this->pid = getmypid();
            $this->idle = [];
            $this->owed = [];
        }
        if ($asking !== null && str_starts_with($asking, '?')) {
            $connection = $this->open(substr($asking, 1));
            $connection->ask(['ASKING'], self::PATIENCE);
            return $connection;
        }
        $node = $this->nodes === [] ? null : $this->nodes[Slot::of($key)] ?? null;
        foreach ($this->idle as $i => $connection) {
            if ($node === null || $connection->address === $this->scheme . $node) {
                unset($this->idle[$i]);
                if ($connection->isAlive()) {
                    return $connection;
                }
            }
        }
        return $node === null ? ($this->find)($this) : $this->open($node);
    }

    /** Where the server sends us, with a '?' in front if only for this once; null if it does not. */
    private function redirection(LockError $error, Connection $by): ?string
    {
        if (!preg_match('/^(MOVED|ASK) (\d+) (\S+)$/', trim($error->getMessage()), $parts)) {
            return null;
        }
        [, $how, $slot, $node] = $parts;
        if ($node[0] === ':') {
            // The same host, of which the node does not know the name.
            $node = substr($by->address, strlen($this->scheme), strrpos($by->address, ':') - strlen($this->scheme)) . $node;
        }
        if ($how === 'MOVED') {
            $this->nodes[(int) $slot] = $node;
        }
        $this->give($by);
        return ($how === 'ASK' ? '?' : '') . $node;
    }

    private function forget(): void
    {
        $this->idle = [];
        $this->nodes = [];
    }
}
