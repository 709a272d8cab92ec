<?php

declare(strict_types=1);

namespace LockSo\Tests;

use LockSo\Locks;
use LockSo\NotAcquired;
use LockSo\Refused;
use LockSo\Slot;
use LockSo\Wire;
use PHPUnit\Framework\TestCase;
use Redis;
use RedisCluster;
use RedisException;

/** Servers that are reached in other ways than by host and port only. */
final class ServersTest extends TestCase
{
    /** @var list<Server> */
    private array $servers = [];

    protected function tearDown(): void
    {
        array_walk($this->servers, fn (Server $server) => $server->stop());
    }

    public function testAPasswordAndADatabase(): void
    {
        $server = $this->server('--requirepass', 'secret');
        $redis = $server->client();
        $this->until(fn () => $redis->auth('secret'));
        $redis->select(3);
        self::assertSame(1, Locks::on($redis)->lock('k')->run(fn () => $redis->exists('k')));
        $locks = Locks::server("127.0.0.1:$server->port", auth: 'secret', db: 3);
        self::assertSame(1, $locks->lock('k')->run(fn () => $redis->exists('k')));
        $redis->rawCommand('CONFIG', 'SET', 'requirepass', 'another');
        $this->expectException(Refused::class);
        Locks::on($redis)->lock('k')->acquire();
    }

    public function testAUnixSocket(): void
    {
        $server = $this->server('--unixsocket', './socket');
        $redis = new Redis();
        $redis->connect("{$server->folder}/socket");
        self::assertSame(1, Locks::on($redis)->lock('k')->run(fn () => $redis->exists('k')));
        self::assertSame(1, Locks::server("{$server->folder}/socket")->lock('k')->run(fn () => $redis->exists('k')));
    }

    public function testAnAddressHasAPort(): void
    {
        $this->expectExceptionMessage('address must be host:port or the path of a socket, not localhost');
        Locks::server('localhost');
    }

    public function testTls(): void
    {
        $key = openssl_pkey_new();
        $request = openssl_csr_new(['commonName' => 'localhost'], $key);
        $pem = tempnam(sys_get_temp_dir(), 'lock-so-');
        openssl_x509_export(openssl_csr_sign($request, null, $key, 1), $certificate);
        openssl_pkey_export($key, $private);
        file_put_contents($pem, $certificate . $private);
        $files = ['--tls-cert-file', $pem, '--tls-key-file', $pem, '--tls-ca-cert-file', $pem];
        $server = $this->server('--tls-auth-clients', 'no', ...$files);
        // The command fails if another process has taken the port.
        $this->until(function () use ($server, &$port) {
            $port = Server::freePort();
            return $server->client()->rawCommand('CONFIG', 'SET', 'tls-port', $port);
        });
        $context = ['stream' => ['cafile' => $pem, 'peer_name' => 'localhost']];
        $redis = new Redis();
        $this->until(fn () => @$redis->connect('tls://127.0.0.1', $port, 2.0, null, 0, 0, $context));
        self::assertSame(1, Locks::on($redis, $context)->lock('k')->run(fn () => $redis->exists('k')));
        $locks = Locks::server("tls://127.0.0.1:$port", context: $context);
        self::assertSame(1, $locks->lock('k')->run(fn () => $redis->exists('k')));
        $this->aRedLockConnects($port, $context);
        $this->aForkEndsNoSession($server, Locks::on($redis, $context));
        try {
            Locks::on($redis)->lock('k')->acquire(0.0);
            self::fail('the certificate is not trusted');
        } catch (RedisException $error) {
            self::assertStringContainsString('certificate verify failed', $error->getMessage());
        } finally {
            unlink($pem);
        }
    }

    private function aRedLockConnects(int $port, array $context): void
    {
        foreach ([[$context, true], [[], RedisException::class]] as [$given, $expected]) {
            $reply = null;
            $wire = new Wire("tls://127.0.0.1:$port", $given);
            $wire->send(['PING'], function (mixed $received) use (&$reply): void {
                $reply = $received;
            });
            for ($end = microtime(true) + 10; $reply === null && microtime(true) < $end; usleep(1000)) {
                $wire->advance();
            }
            self::assertSame($expected, is_object($reply) ? $reply::class : $reply);
        }
    }

    /** The end of a TLS connection is a message, which a fork must not send on its parent's connection. */
    private function aForkEndsNoSession(Server $server, Locks $locks): void
    {
        $hold = $locks->lock('s', session: true)->acquire();
        $bound = fn () => $server->client()->rawCommand('LOCK.INFO', 's')[3][0][9];
        $before = $bound();
        $pid = pcntl_fork();
        if ($pid === 0) {
            $locks->lock('another')->run(fn () => null);
            posix_kill(getmypid(), SIGKILL);
        }
        pcntl_waitpid($pid, $status);
        usleep(50_000); // until then a message that ends the session would have arrived
        self::assertNotNull($before);
        self::assertSame($before, $bound());
        $hold->release();
    }

    public function testNoServer(): void
    {
        $server = $this->server();
        $locks = Locks::on($server->client());
        array_pop($this->servers)->stop();
        // Nothing was sent, so there is nothing to cancel, which would take longer than a second.
        $this->until(function () use ($locks): bool {
            $began = microtime(true);
            try {
                $locks->lock('k')->acquire(0.0);
                self::fail('there is no server');
            } catch (RedisException $error) {
                self::assertStringContainsString('refused', $error->getMessage());
            }
            return microtime(true) - $began < 1.0;
        });
    }

    public function testAnOutageThatBeginsWithTheSentinelsNamesOne(): void
    {
        $address = '127.0.0.1:' . Server::freePort();
        $log = tempnam(sys_get_temp_dir(), 'lock-so-');
        $before = ini_set('error_log', $log);
        try {
            Locks::sentinel([$address], 'm', connectTimeout: 0.1)->lock('k')->acquire();
            self::fail('there is no Sentinel');
        } catch (RedisException) {
            self::assertStringContainsString("lock \"k\": no connection to $address (", file_get_contents($log));
        } finally {
            ini_set('error_log', $before);
            unlink($log);
        }
    }

    public function testACluster(): void
    {
        [$one, $two] = $this->servers = Server::cluster();
        $redis = new RedisCluster(null, ["127.0.0.1:{$one->port}"], 2.0, 2.0);
        foreach ([Locks::cluster($redis), Locks::cluster(["127.0.0.1:1", "127.0.0.1:{$two->port}"])] as $locks) {
            foreach (['a', 'b', 'c', 'd', '{a}x', 'a{b}c', '{}', 'a{}b', 'x}y', '', "\xff{1"] as $key) {
                self::assertSame($one->client()->rawCommand('CLUSTER', 'KEYSLOT', $key), Slot::of($key), $key);
                $key === '' || self::assertSame(1, $locks->lock($key)->run(fn () => $redis->exists($key)), $key);
            }
            self::assertSame(2, $locks->multi(['{b}1', '{b}2'])->run(fn () => $redis->exists('{b}1', '{b}2')));
            $locks->semaphore('b', 1)->run(fn ($hold) => $hold->renew());
        }
        // 'b' and 'c' are in two slots of the first node, 'a' in one of the second.
        $hold = $locks->multi(['a', '{c}1', 'b', '{c}2'], reentrant: true)->acquire(0.0);
        self::assertSame(['a', '{c}1', 'b', '{c}2'], $hold->keys);
        self::assertSame([['b'], ['{c}1', '{c}2'], ['a']], array_column($hold->holds, 'keys'));
        self::assertNull($locks->multi(read: ['a', 'b'])->tryAcquire());
        $hold->renew(60.0);
        $hold->release();
        $hold = $locks->multi(read: ['a', 'b'], write: ['{b}1', 'c'])->acquire(0.0);
        self::assertSame(['read', 'read', 'write', 'write'], array_map(
            fn (string $key) => $locks->lock($key)->info()->holders[0]->mode,
            ['a', 'b', '{b}1', 'c'],
        ));
        $hold->release();
        self::assertFalse($locks->multi(['a', 'b', '{b}1', 'c'])->locked());
        $this->moveASlot($one, $two, $locks);
    }

    /** A node that does not respond accepts connections nevertheless. */
    public function testANodeThatDoesNotRespondIsSkipped(): void
    {
        [$one, $two] = $this->servers = Server::cluster();
        $one->signal(SIGSTOP);
        $locks = Locks::cluster(["127.0.0.1:{$one->port}", "127.0.0.1:{$two->port}"]);
        // Its slot is served by the second node.
        self::assertGreaterThan(8191, Slot::of('a'));
        $locks->lock('a')->acquire(5.0)->release();
    }

    public function testSentinelsThatDoNotRespondAreSkippedInTime(): void
    {
        $server = $this->server();
        $silent = [stream_socket_server('tcp://127.0.0.1:0'), stream_socket_server('tcp://127.0.0.1:0')];
        [$sentinel, $pid] = self::sentinel($server);
        try {
            $names = [...array_map(fn ($socket) => stream_socket_get_name($socket, false), $silent), $sentinel];
            foreach ([0.0, 0.5] as $wait) {
                $began = microtime(true);
                try {
                    Locks::sentinel($names, 'm')->lock('k')->acquire($wait)->release();
                } catch (RedisException | NotAcquired) {
                    // There was no time left for the third one.
                }
                self::assertLessThan($wait + 0.4, microtime(true) - $began);
            }
            Locks::sentinel($names, 'm')->lock('k')->acquire(5.0)->release();
        } finally {
            posix_kill($pid, SIGKILL);
            pcntl_waitpid($pid, $status);
        }
    }

    /** Two of three Sentinels do not respond when the connection is lost. @dataProvider holds */
    public function testAHoldIsKeptWhileSentinelsDoNotRespond(callable $use, bool $session): void
    {
        $server = $this->server();
        $client = $server->client();
        $client->rawCommand('CONFIG', 'SET', 'lock.session-grace', 5000);
        $sentinels = array_map(fn () => self::sentinel($server), [1, 2, 3]);
        [$names, $pids] = [array_column($sentinels, 0), array_column($sentinels, 1)];
        try {
            $hold = Locks::sentinel($names, 'm')->lock('k', lease: 3.0, session: $session)->acquire();
            posix_kill($pids[0], SIGSTOP);
            posix_kill($pids[1], SIGSTOP);
            $client->rawCommand('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
            usleep(1_100_000);
            $began = microtime(true);
            $use($hold);
            self::assertLessThan(1.8, microtime(true) - $began);
            self::assertFalse($hold->isLost());
        } finally {
            foreach ($pids as $pid) {
                posix_kill($pid, SIGKILL);
                pcntl_waitpid($pid, $status);
            }
        }
    }

    public function holds(): array
    {
        return [
            'keep' => [fn ($hold) => $hold->keep(), false],
            'keep a session' => [fn ($hold) => $hold->keep(), true],
            'isLost' => [fn ($hold) => $hold->isLost(), false],
            'renew' => [fn ($hold) => $hold->renew(), false],
            'release' => [fn ($hold) => $hold->release(), false],
        ];
    }

    /** A process that answers as a Sentinel: its address and id. */
    private static function sentinel(Server $master): array
    {
        $listener = stream_socket_server('tcp://127.0.0.1:0');
        $pid = pcntl_fork();
        if ($pid === 0) {
            while ($connection = @stream_socket_accept($listener, 60)) {
                fread($connection, 1000);
                fwrite($connection, "*2\r\n\$9\r\n127.0.0.1\r\n$" . strlen((string) $master->port) . "\r\n{$master->port}\r\n");
            }
            posix_kill(getmypid(), SIGKILL);
        }
        return [stream_socket_get_name($listener, false), $pid];
    }

    /** A slot moves to another node: ASK during the move, MOVED afterwards. */
    private function moveASlot(Server $one, Server $two, Locks $locks): void
    {
        $key = 'b';
        $slot = Slot::of($key);
        self::assertLessThan(8192, $slot);
        $arrive = Server::move($slot, $one, $two);
        $hold = $locks->lock($key)->acquire();
        self::assertSame(1, $two->client()->rawCommand('CLUSTER', 'COUNTKEYSINSLOT', $slot));
        $hold->renew();
        $arrive();
        $hold->release();
        self::assertSame(0, $two->client()->rawCommand('CLUSTER', 'COUNTKEYSINSLOT', $slot));
    }

    private function server(string ...$options): Server
    {
        return $this->servers[] = new Server(...$options);
    }

    private function until(callable $condition): void
    {
        for ($end = microtime(true) + 20; ; usleep(10000)) {
            try {
                if ($condition()) {
                    return;
                }
            } catch (RedisException) {
                // Not yet.
            }
            self::assertLessThan($end, microtime(true), 'it takes too long');
        }
    }
}
