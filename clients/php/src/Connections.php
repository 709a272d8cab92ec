<?php

declare(strict_types=1);

namespace LockSo;

use Closure;
use RedisException;
use Throwable;

/**
 * The connections of the locks, never those of the program: one to each server that is needed, because a process waits
 * for one reply at a time, and one for each session.
 *
 * @internal
 */
final class Connections
{
    /** Seconds until a server that does not respond is considered dead. */
    public const PATIENCE = 2.0;
    /** By how many seconds a wait may exceed its limit. */
    public const TOLERANCE = 0.08;
    /** Seconds within which a request on a connection that is closed by now may arrive. */
    private const LATE = 0.1;

    /** Whether the last call sent a command without receiving its reply. */
    public bool $unsure = false;
    /** By Clock: until when connecting may take. */
    public float $deadline = INF;
    /** The server that was used last, for texts. */
    public string $address = 'the server';
    /** @var \WeakMap<Hold, true> what is held */
    public \WeakMap $holds;
    /** Whether a reply has ever been received. */
    public bool $connected = false;
    private bool $closed = false;
    /** @var list<Connection> */
    private array $idle = [];
    /** @var array<int, string> the known nodes of a cluster, by slot */
    private array $nodes = [];
    /**
     * The requests to cancel: the key, the commands, until when they matter, and when they were sent without effect.
     *
     * @var list<array{string, list<list<string|int>>, float, ?float}>
     */
    private array $owed = [];
    /** @var list<Connection> the connections of the parent process; closing one with TLS would end it for the parent, too */
    private array $inherited = [];
    private int $pid;

    /**
     * `$find` gets this object and returns a connection to the master, or to any node of a cluster. `$scheme` is
     * 'tls://' or empty, `$auth` a password or [user, password], `$timeout` the limit for connecting in seconds. One
     * command blocks for `$maxBlock` seconds at most; then the request is sent again, so that a server that stopped
     * responding is noticed. `$name` is that of the server, by which the locks of several servers are ordered; `$single` its
     * address, unless that may change.
     */
    public function __construct(
        private Closure $find,
        private string $scheme = '',
        private mixed $auth = null,
        private int $db = 0,
        private float $timeout = self::PATIENCE,
        private array $context = [],
        public readonly float $maxBlock = 30.0,
        public readonly float $connectTimeout = 5.0,
        public readonly string $name = '',
        private bool $isCluster = false,
        public readonly ?string $single = null,
    ) {
        Lock::checkPositive('maxBlock', $maxBlock);
        Lock::checkPositive('connectTimeout', $connectTimeout);
        $this->pid = getmypid();
        $this->holds = new \WeakMap();
    }

    /**
     * Sends a command until it has a reply, again after lost connections, redirections and transient errors; at least
     * once, and not again after `$until` (by Clock). `$words` returns the command, how many seconds it may take, and
     * whether the reply is null after them because it was to block no longer. A session's call uses the connection of
     * `$binding`, and leaves the connection of the reply there. `$failed` is called with each connection error after
     * which it is sent again, and how long the connection had lasted. With `$once` it is not sent again if it may have
     * been executed.
     *
     * @param Closure(): array{0: list<string|int>, 1: float, 2?: bool} $words
     * @throws LockError
     * @throws RedisException
     */
    public function call(string $key, Closure $words, float $until, ?Binding $binding = null, ?Closure $failed = null, bool $once = false): mixed
    {
        $this->checkOpen();
        $this->unsure = false;
        $started = Clock::now();
        $redirections = 0;
        $pause = 0.02;
        $asking = null;
        while (true) {
            $began = Clock::now();
            $connection = null;
            $connected = INF;
            $sent = false;
            try {
                $connection = $binding?->take() ?? $this->connect($key, $asking, $started, $until);
                $connected = Clock::now();
                [$command, $patience, $isCut] = $words() + [2 => false];
                $sent = true;
                $reply = $connection->send($command, $patience);
                $this->connected = true;
                $this->keep($connection, $binding);
                return $reply;
            } catch (LockError $trouble) {
                $this->connected = true;
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
                if ($sent && ($once || $isCut && Clock::now() - $connected >= $patience - 0.01)) {
                    $connection->close();
                    return $once ? throw $trouble : null;
                }
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
            if ($now >= $until || $trouble instanceof RedisException && !$this->connected && $now - $started >= $this->connectTimeout) {
                throw $trouble;
            }
            $trouble instanceof RedisException && $failed !== null && $failed($trouble, $now - $connected);
            $pause = $now - $began > 1.0 ? 0.02 : $pause;
            Clock::sleep(min($pause, $until - $now));
            $pause = min(2 * $pause, 0.5);
        }
    }

    /** Sends a short command, which has PATIENCE seconds in all. With `$once` as in call, and `$named` as in within. */
    public function request(string $key, array $words, bool $once = false, ?string $named = null): mixed
    {
        $until = min($this->deadline, Clock::now() + self::PATIENCE);
        $call = fn () => $this->call($key, fn () => [$words, $this->patience()], $until, once: $once);
        return $this->within($until, $call, $named);
    }

    /**
     * Sends a command that waits until `$until` (by Clock), in calls that block for `$maxBlock` seconds at most. Returns its
     * first reply that is not null, and null if there is none. `$named` as in within; `$outage` logs the outages.
     */
    public function await(string $key, array $words, float $until, string $named, ?Outage $outage = null): mixed
    {
        $blocking = function () use ($words, $until): array {
            $block = min($this->maxBlock, $until - Clock::now());
            return [[...$words, 'BLOCK', Clock::milliseconds($block)], $this->patience($block + self::PATIENCE)];
        };
        return $this->within($until + self::TOLERANCE, function () use ($key, $blocking, $until, $outage): mixed {
            do {
                $reply = $this->call($key, $blocking, $until, failed: $outage === null ? null : $outage->failed(...));
                $outage?->end();
            } while ($reply === null && Clock::now() < $until);
            return $reply;
        }, $named);
    }

    /** The slot of a key; 0 outside of a cluster. */
    public function slot(string $key): int
    {
        return $this->isCluster ? Slot::of($key) : 0;
    }

    /** Remembers what is held, for close. */
    public function hold(Hold $hold): Hold
    {
        $this->holds[$hold] = true;
        return $hold;
    }

    /** Connects and authenticates, without keeping the connection. */
    public function open(string $address): Connection
    {
        $scheme = str_starts_with($address, '/') || str_contains($address, '://') ? '' : $this->scheme;
        $this->address = $address;
        $connection = Connection::open($scheme . $address, $this->patience($this->timeout), $this->context);
        foreach ($this->greeting() as $words) {
            $connection->send($words, $this->patience());
        }
        $connection->fresh = true;
        return $connection;
    }

    /** The commands with which a connection begins. */
    public function greeting(): array
    {
        return [
            ...(($this->auth ?? false) === false ? [] : [['AUTH', ...(array) $this->auth]]),
            ...($this->db === 0 ? [] : [['SELECT', $this->db]]),
        ];
    }

    /** A new connection for a RedLock, which has not begun. */
    public function wire(): Wire
    {
        return new Wire($this->single, $this->context);
    }

    public function checkOpen(): void
    {
        !$this->closed || throw new Closed('these Locks are closed');
    }

    /** Keeps an idle connection for the next call. */
    public function give(Connection $connection): void
    {
        $this->idle = [$connection, ...array_slice($this->idle, 0, 7)];
    }

    /**
     * Cancels a request within `$patience` seconds. The commands are sent one after the other, until one reply shows
     * that a wait was ended or a hold released. If none does, they are sent once more. If that is not possible in time,
     * it is done before the next acquisition, or when this object is destroyed, until `$until` (by Clock).
     */
    public function giveUp(string $key, array $commands, float $until, float $patience): void
    {
        array_unshift($this->owed, [$key, $commands, $until, null]);
        $patience > 0.0 && $this->settle($patience);
    }

    /** Tries for `$patience` seconds to cancel what could not be cancelled in time. */
    public function settle(float $patience): void
    {
        $owed = $this->own() ? $this->owed : [];
        $this->owed = [];
        $end = Clock::now() + $patience;
        while ($one = array_shift($owed)) {
            try {
                if (Clock::now() <= $one[2] && !$this->cancel($one, $end)) {
                    $this->owed[] = $one;
                }
            } catch (LockError | RedisException $trouble) {
                // Another error is a reply, too.
                if ($trouble instanceof RedisException || $trouble instanceof Refused && $trouble->isTransient()) {
                    array_push($this->owed, $one, ...$owed);
                    return;
                }
            }
        }
    }

    /** Whether it is done; otherwise the commands must be sent once more. */
    private function cancel(array &$one, float $end): bool
    {
        [$key, $commands, , &$sent] = $one;
        do {
            $isLast = $sent !== null;
            $pause = $isLast ? $sent + self::LATE - Clock::now() : 0.0;
            if ($pause > 0.0) {
                if ($end - Clock::now() < $pause + 0.05) {
                    return false;
                }
                Clock::sleep($pause);
            }
            foreach ($commands as $words) {
                try {
                    if ($this->call($key, fn () => [$words, max(0.02, $end - Clock::now())], $end) !== 0) {
                        return true;
                    }
                } catch (NotHeld) {
                    // There was no hold, either.
                }
            }
            $sent = Clock::now();
        } while (!$isLast);
        return true;
    }

    /** Releases what is held, within `$timeout` seconds, and closes the connections. */
    public function close(float $timeout): void
    {
        $this->deadline = $end = Clock::now() + $timeout;
        foreach ($this->closed || !$this->own() ? [] : $this->holds as $hold => $_) {
            $hold->drop(max(0.0, $end - Clock::now()));
        }
        $this->settle(max(0.0, min(self::PATIENCE, $end - Clock::now())));
        $this->closed = true;
        $this->own() && array_walk($this->idle, fn (Connection $connection) => $connection->close());
        $this->forget();
    }

    /**
     * Calls `$work`, in which connecting and each reply may take until `$deadline` (by Clock) at most. `$named` is what its
     * errors concern.
     */
    public function within(float $deadline, Closure $work, ?string $named = null): mixed
    {
        $outer = $this->deadline;
        $this->deadline = min($outer, $deadline);
        try {
            return $work();
        } catch (LockError $error) {
            throw $named === null ? $error : $error->about($named);
        } finally {
            $this->deadline = $outer;
        }
    }

    /** `$most` seconds, or what is left until the deadline. */
    public function patience(float $most = self::PATIENCE): float
    {
        return max(0.01, min($most, $this->deadline - Clock::now()));
    }

    public function __destruct()
    {
        $this->deadline = INF;
        $this->closed || $this->settle(self::PATIENCE);
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

    /** A connection, for a call that began at `$started`. As long as there was no reply, that has `$connectTimeout` seconds. */
    private function connect(string $key, ?string $asking, float $started, float $until): Connection
    {
        return $this->connected ? $this->take($key, $asking) : $this->within(
            $started + $this->connectTimeout,
            function () use ($key, $asking, $started, $until): Connection {
                $connection = $this->take($key, $asking);
                if ($until - $started > $this->connectTimeout) {
                    // Also a server that does not respond, or has no connection left, accepts it. The command may take longer.
                    $connection->send(['PING'], $this->patience());
                    $connection->fresh = $this->connected = true;
                }
                return $connection;
            },
        );
    }

    private function take(string $key, ?string $asking): Connection
    {
        if (!$this->own()) {
            $this->pid = getmypid();
            array_push($this->inherited, ...$this->idle);
            $this->idle = [];
            $this->owed = [];
        }
        if ($asking !== null && str_starts_with($asking, '?')) {
            $connection = $this->open(substr($asking, 1));
            $connection->send(['ASKING'], $this->patience());
            return $connection;
        }
        $node = $this->nodes === [] ? null : $this->nodes[Slot::of($key)] ?? null;
        foreach ($this->idle as $i => $connection) {
            if ($node === null || $connection->address === $this->scheme . $node) {
                unset($this->idle[$i]);
                if ($connection->isAlive($this->patience(1.0))) {
                    $this->address = $connection->address;
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
