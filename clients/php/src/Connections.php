<?php

declare(strict_types=1);

namespace LockSo;

use Closure;
use RedisException;
use Throwable;

/**
 * The connections of the locks, never those of the program: one to each server that is needed, because a process waits
 * for one reply at a time, and one for each session.
 */
final class Connections
{
    /** Seconds until a server that does not respond is considered dead. */
    public const PATIENCE = 2.0;

    /** Whether the last call sent a command without receiving its reply. */
    public bool $unsure = false;
    /** @var list<Connection> */
    private array $idle = [];
    /** @var array<int, string> the known nodes of a cluster, by slot */
    private array $nodes = [];
    /** @var list<array{Withdrawal, float}> the withdrawals that could not be sent; until when they matter */
    private array $owed = [];
    private int $pid;

    /**
     * `$find` gets this object and returns a connection to the master, or to any node of a cluster. `$scheme` is
     * 'tls://' or empty, `$auth` a password or [user, password], `$timeout` the limit for connecting in seconds. One
     * command blocks for `$maxBlock` seconds at most; then the request is sent again, so that a server that stopped
     * responding is noticed.
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
     * Sends a command until it has a reply, again after lost connections, redirections and transient errors; at least
     * once, and not again after `$until` (by Clock). `$words` returns the command, and how many seconds it may take. A
     * session's call uses the connection of `$binding`, and leaves the connection of the reply there.
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
                // The new master may have the grant.
                $this->unsure = $this->unsure || $trouble->reason === 'UNBLOCKED';
            } catch (RedisException $trouble) {
                $asking = null;
                // The server may have closed the connection while it was idle.
                $atOnce = $connection !== null && !$connection->fresh && Clock::now() - $began < 0.5;
                $this->unsure = $this->unsure || $sent;
            } catch (Throwable $raised) {
                // Thrown by a signal handler of the program. Closing the connection ends the wait.
                $connection?->close();
                throw $raised;
            }
            if ($asking === null) {
                $connection?->close();
                // Other idle connections may be dead too, and slots may have moved.
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

    /** Connects and authenticates, without keeping the connection. */
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

    /** Keeps an idle connection for the next call. */
    public function give(Connection $connection): void
    {
        $this->idle = [$connection, ...array_slice($this->idle, 0, 7)];
    }

    /**
     * Sends the withdrawal later, until `$until` (by Clock): before the next acquisition, or when this object is
     * destroyed.
     */
    public function owe(Withdrawal $withdrawal, float $until): void
    {
        $this->owed[] = [$withdrawal, $until];
    }

    /** Tries for `$patience` seconds to send the withdrawals that are owed. */
    public function settle(float $patience = 0.5): void
    {
        $owed = $this->own() ? $this->owed : [];
        $this->owed = [];
        $end = Clock::now() + $patience;
        foreach ($owed as $i => [$withdrawal, $until]) {
            try {
                Clock::now() > $until || $withdrawal->send($this, $end);
            } catch (LockError) {
                // An error is a reply, too.
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

    /** Whether this process created the object. A fork opens connections of its own. */
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

    /** The node to which the error redirects, after a '?' if for this command only; null if it does not redirect. */
    private function redirection(LockError $error, Connection $by): ?string
    {
        if (!preg_match('/^(MOVED|ASK) (\d+) (\S+)$/', trim($error->getMessage()), $parts)) {
            return null;
        }
        [, $how, $slot, $node] = $parts;
        if ($node[0] === ':') {
            // The node does not know its host name: it is the same host.
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
