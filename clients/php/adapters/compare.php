<?php

// Compares the adapters with the frameworks' own locks in Redis: compare.php [rounds]. It starts a server, and prints a
// table. The environment is that of bootstrap.php.

declare(strict_types=1);

namespace LockSo\Adapters;

use Illuminate\Support\Facades\Cache;
use LockSo\Symfony\LockStore;
use LockSo\Tests\Server;
use Redis;
use RuntimeException;
use Symfony\Component\Lock\LockFactory;
use Symfony\Component\Lock\Store\RedisStore;

require __DIR__ . '/bootstrap.php';

/** Seconds: the ttl of a lock whose holder is killed, and of the others. */
const TTL = 5;
const LONG = 300;
const WAITERS = 10;

/** A process with which this one exchanges lines. */
final class Peer
{
    private int $pid;
    /** @var resource */
    private mixed $socket;

    /** Calls `$do(Peer)` in the new process, with the peer that is this one. */
    public function __construct(?callable $do = null, mixed $socket = null)
    {
        if ($do === null) {
            $this->socket = $socket;
            return;
        }
        [$mine, $its] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        $this->pid = pcntl_fork();
        if ($this->pid === 0) {
            $do(new self(null, $its));
            posix_kill(getmypid(), SIGKILL);
        }
        $this->socket = $mine;
    }

    public function say(string|int $line): void
    {
        fwrite($this->socket, "$line\n");
    }

    public function read(): string
    {
        return trim(fgets($this->socket) ?: throw new RuntimeException('the other process has ended'));
    }

    public function kill(): void
    {
        posix_kill($this->pid, SIGKILL);
        pcntl_waitpid($this->pid, $status);
    }
}

/** Milliseconds from a release to the next grant: the median. */
function handoff(callable $lock, int $rounds): float
{
    $peer = new Peer(function (Peer $parent) use ($lock, $rounds): void {
        for ($i = 0; $i < $rounds; $i++) {
            [$acquire, $release] = $lock(LONG);
            $parent->read();
            $parent->say('waiting');
            $acquire();
            $granted = hrtime(true);
            $release();
            // After the release, because the process is killed after its last line.
            $parent->say($granted);
        }
    });
    $times = [];
    for ($i = 0; $i < $rounds; $i++) {
        [$acquire, $release] = $lock(LONG);
        $acquire();
        $peer->say('wait');
        $peer->read();
        // Not always the same moment of an interval between two tries.
        usleep(random_int(50_000, 350_000));
        $released = hrtime(true);
        $release();
        $times[] = (int) $peer->read() - $released;
    }
    $peer->kill();
    sort($times);
    return $times[intdiv($rounds, 2)] / 1e6;
}

/** Commands that one of several waiters sends in a second. */
function commands(callable $lock, Redis $redis): float
{
    [$acquire, $release] = $lock(LONG);
    $acquire();
    $peers = [];
    for ($i = 0; $i < WAITERS; $i++) {
        $peers[] = new Peer(function (Peer $parent) use ($lock): void {
            [$acquire, $release] = $lock(LONG);
            $parent->say('waiting');
            $acquire();
            $release();
            $parent->say('released');
        });
    }
    array_map(fn (Peer $peer) => $peer->read(), $peers);
    // Until each has sent its first commands, on a busy machine too.
    sleep(2);
    // Without those that scripts send.
    $sent = function () use ($redis): int {
        preg_match_all('/cmdstat_(?:evalsha|set|setnx|lock\.\w+):calls=(\d+)/', $redis->rawCommand('INFO', 'commandstats'), $found);
        return (int) array_sum($found[1]);
    };
    $before = $sent();
    sleep(5);
    $during = $sent() - $before;
    $release();
    array_map(fn (Peer $peer) => $peer->read(), $peers);
    array_map(fn (Peer $peer) => $peer->kill(), $peers);
    return $during / 5 / WAITERS;
}

/** Seconds until the lock is free after its holder is killed. */
function afterKill(callable $lock): float
{
    $peer = new Peer(function (Peer $parent) use ($lock): void {
        [$acquire] = $lock(TTL);
        $acquire();
        $parent->say('holding');
        sleep(60);
    });
    $peer->read();
    [$acquire, $release] = $lock(TTL);
    $killed = hrtime(true);
    $peer->kill();
    $acquire();
    $seconds = (hrtime(true) - $killed) / 1e9;
    $release();
    return $seconds;
}

$server = new Server();
$redis = $server->client();
$rounds = (int) ($argv[1] ?? 100);

// Each process has its own store.
$symfony = fn (callable $store) => function (int $ttl) use ($server, $store): array {
    static $stores = [];
    $stores[getmypid()] ??= $store($server->client());
    $lock = (new LockFactory($stores[getmypid()]))->createLock('report', $ttl);
    return [fn () => $lock->acquire(true), fn () => $lock->release()];
};
$laravel = fn (callable $lock) => function (int $ttl) use ($server, $lock): array {
    static $pid = null;
    if ($pid !== getmypid()) {
        LaravelApplication::start($server->port);
        $pid = getmypid();
    }
    $one = $lock($ttl);
    return [fn () => $one->block(100), fn () => $one->release()];
};
$competitors = [
    'Symfony RedisStore' => $symfony(fn (Redis $redis) => new RedisStore($redis)),
    'Symfony LockStore' => $symfony(fn (Redis $redis) => new LockStore($redis)),
    'Symfony LockStore, session' => $symfony(fn (Redis $redis) => new LockStore($redis, session: true)),
    'Laravel RedisLock' => $laravel(fn (int $ttl) => Cache::store('redis')->lock('other', $ttl)),
    'Laravel DistributedLock' => $laravel(fn (int $ttl) => Cache::lock('report', $ttl)),
    'Laravel DistributedLock, session' => $laravel(fn (int $ttl) => Cache::lock('report', $ttl)->with(session: true)),
];

echo 'server ', $redis->info('server')['redis_version'], ', PHP ', PHP_VERSION, ', php-redis ', phpversion('redis'), ", $rounds hand-offs; the ttl of a killed holder is ", TTL, " s\n\n";
echo "| | release to grant, p50 | commands per second of each of ", WAITERS, " waiters | free after kill -9 |\n|---|---|---|---|\n";
foreach ($competitors as $name => $lock) {
    $redis->flushAll();
    printf("| %s | %.2f ms | %.1f | %.2f s |\n", $name, handoff($lock, $rounds), commands($lock, $redis), afterKill($lock));
}
$server->stop();
