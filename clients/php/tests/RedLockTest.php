<?php

declare(strict_types=1);

namespace LockSo\Tests;

use InvalidArgumentException;
use LockSo\Closed;
use LockSo\Lock;
use LockSo\Locks;
use LockSo\NotAcquired;
use LockSo\NotHeld;
use LockSo\RedLock;
use LockSo\Refused;
use PHPUnit\Framework\TestCase;
use RedisException;

/** A lock on the majority of three servers. */
final class RedLockTest extends TestCase
{
    /** @var list<Server> */
    private static array $all = [];
    private RedLock $red;
    /** @var list<int> the servers that are stopped */
    private array $stopped = [];

    public static function setUpBeforeClass(): void
    {
        self::$all = [new Server(), new Server(), new Server()];
    }

    public static function tearDownAfterClass(): void
    {
        array_walk(self::$all, fn (Server $server) => $server->stop());
    }

    protected function setUp(): void
    {
        array_walk(self::$all, fn (Server $server) => $server->client()->flushAll());
        $this->red = self::create();
    }

    protected function tearDown(): void
    {
        $this->goOn();
    }

    private static function create(float $connectTimeout = 5.0): RedLock
    {
        return new RedLock(array_map(fn (Server $server) => Locks::on($server->client(), connectTimeout: $connectTimeout), self::$all));
    }

    private function stop(int ...$which): void
    {
        $this->stopped = $which;
        array_map(fn (int $i) => self::$all[$i]->signal(SIGSTOP), $which);
    }

    private function goOn(): void
    {
        array_map(fn (int $i) => self::$all[$i]->signal(SIGCONT), $this->stopped);
        $this->stopped = [];
    }

    /** Who holds it on each server. */
    private function owners(): array
    {
        return array_map(fn (Server $server) => $server->client()->rawCommand('LOCK.INFO', 'k')[3][0][1] ?? null, self::$all);
    }

    private function waitFor(callable $condition, string $what): void
    {
        for ($until = microtime(true) + 15; !$condition(); usleep(5000)) {
            self::assertLessThan($until, microtime(true), "waited for $what");
        }
        $this->addToAssertionCount(1);
    }

    private function everywhere(?string $owner): void
    {
        $this->waitFor(fn () => $this->owners() === [$owner, $owner, $owner], 'all servers');
    }

    public function testItIsHeldOnAllServers(): void
    {
        $lock = $this->red->lock('k', lease: 20.0);
        $hold = $lock->acquire(0.0);
        $this->everywhere($hold->owner);
        self::assertIsInt($hold->token);
        self::assertTrue($lock->locked());
        $this->waitFor(fn () => count($lock->info()->holders) === 3, 'the replies of all servers');
        self::assertFalse($hold->isLost());
        self::assertNull(self::create()->lock('k')->tryAcquire());
        try {
            self::create()->lock('k')->acquire(0.3);
            self::fail('it is held');
        } catch (NotAcquired $error) {
            $text = "RedLock \"k\" was not acquired within 0.3 s: held by $hold->owner (this process)";
            self::assertSame([$text, [$hold->owner]], [$error->getMessage(), $error->holders]);
        }
        $hold->renew(60.0);
        $this->waitFor(
            fn () => min(array_map(fn (Server $server) => $server->client()->pttl('k'), self::$all)) > 40000,
            'the new lease',
        );
        $hold->release();
        $this->everywhere(null);
        self::assertGreaterThan($hold->token, $lock->run(fn ($next) => $next->token));
        $this->everywhere(null);
        $this->expectExceptionMessage('it was released before');
        $hold->release();
    }

    /** The replies to the releases of one try may still be on their way at the next one. */
    public function testTriesInALoop(): void
    {
        $lock = $this->red->lock('k');
        $hold = self::create()->lock('k')->acquire();
        $this->everywhere($hold->owner);
        $late = 0;
        for ($i = 0; $i < 50; $i++) {
            try {
                self::assertNull($lock->tryAcquire());
            } catch (RedisException) {
                // The machine was busy.
                $late++;
            }
        }
        self::assertLessThan(10, $late);
        $hold->release();
        self::assertGreaterThan(0, $lock->acquire(5.0)->token);
    }

    /** Its first request waits for no connection that the silent server does not answer. */
    public function testATryWithASilentServer(): void
    {
        $this->stop(1);
        $try = function (): bool {
            try {
                return self::create()->lock('k')->tryAcquire() !== null;
            } catch (RedisException) {
                return false;
            }
        };
        self::assertTrue($try() || $try() || $try(), 'no majority, but only one server is silent');
    }

    /** One of the two servers that hold it is silent. */
    public function testLockedWithoutTheReplyOfAHolder(): void
    {
        $hold = $this->red->lock('k')->acquire();
        $this->everywhere($hold->owner);
        self::$all[2]->client()->del('k');
        $this->stop(1);
        self::assertTrue($this->red->lock('k')->locked());
    }

    /** One server is down and one is late: the two that reply must have time to do so. */
    public function testATryWaitsForTheRepliesOfAMajority(): void
    {
        $locks = array_map(fn (Server $server) => Locks::on($server->client()), self::$all);
        $locks[0] = Locks::server('127.0.0.1:' . Server::freePort());
        $lock = (new RedLock($locks))->lock('k');
        $hold = $this->red->lock('k')->acquire();
        $this->everywhere($hold->owner);
        self::assertNull($lock->tryAcquire());
        $late = (int) self::$all[1]->client()->info('server')['process_id'];
        $try = function () use ($lock, $late): bool {
            posix_kill($late, SIGSTOP);
            $pid = pcntl_fork();
            if ($pid === 0) {
                usleep(30000);
                posix_kill($late, SIGCONT);
                posix_kill(getmypid(), SIGKILL);
            }
            try {
                return $lock->tryAcquire() === null;
            } catch (RedisException) {
                // The machine was busy.
                return false;
            } finally {
                pcntl_waitpid($pid, $status);
            }
        };
        self::assertTrue($try() || $try() || $try());
    }

    /** With a lease for which a server has a second to reply. */
    public function testAServerThatIsDownDelaysNothing(): void
    {
        $fails = new Server();
        $addresses = array_map(fn (Server $server) => "127.0.0.1:$server->port", [$fails, self::$all[1], self::$all[2]]);
        $red = fn (string ...$of): Lock => (new RedLock(array_map(Locks::server(...), $of)))->lock('k', lease: 20.0);
        $hold = $red(...$addresses)->acquire(5.0);
        $this->waitFor(fn () => $fails->client()->exists('k') === 1, 'the first server');
        $fails->stop();
        $began = microtime(true);
        $hold->release();
        self::assertLessThan(0.5, microtime(true) - $began);
        // Its end tries for a second to release it on the first server.
        $hold = null;
        $began = microtime(true);
        $hold = $red(...$addresses)->acquire(5.0);
        self::assertLessThan(0.5, microtime(true) - $began);
        self::assertTrue($red(...$addresses)->locked());
        self::assertCount(2, $red(...$addresses)->info()->holders);
        try {
            $red(...$addresses)->acquire(0.5);
            self::fail('it is held');
        } catch (NotAcquired $error) {
            self::assertSame([[$hold->owner], null], [$error->holders, $error->getPrevious()]);
        }
        $began = microtime(true);
        $hold->release();
        self::assertLessThan(0.5, microtime(true) - $began);
        $hold = $red(...$addresses)->acquire(5.0);
        self::assertTrue($red(...$addresses)->force());
        self::assertTrue($hold->isLost());
    }

    public function testAMinorityThatIsSilentDoesNotMatter(): void
    {
        $lock = $this->red->lock('k', lease: 2.0);
        $lock->acquire()->release();
        $this->stop(1);
        $began = microtime(true);
        $hold = $lock->acquire(1.0);
        self::assertLessThan(0.5, microtime(true) - $began);
        $hold->renew();
        self::assertFalse($hold->isLost());
        $hold->release();
        $this->goOn();
        // The release is behind the request.
        $this->everywhere(null);
    }

    public function testWithoutAMajorityAWaitEndsInTime(): void
    {
        $lock = self::create(connectTimeout: 0.6)->lock('k', lease: 2.0);
        $lock->acquire()->release();
        $this->stop(0, 2);
        $this->failsInTime($lock, 0.0, RedisException::class);
        $this->failsInTime($lock, 0.4, NotAcquired::class);
        $this->failsInTime($lock, 9.0, RedisException::class);
        $this->goOn();
        $this->everywhere(null);
    }

    private function failsInTime(Lock $lock, float $wait, string $class): void
    {
        $began = microtime(true);
        try {
            $lock->acquire($wait);
            self::fail('there is no majority');
        } catch (RedisException | NotAcquired $error) {
            self::assertInstanceOf($class, $error);
            self::assertLessThan(min($wait, 1.0) + 0.4, microtime(true) - $began);
        }
    }

    public function testAServerThatHasLostItCountsAgainLater(): void
    {
        $hold = $this->red->lock('k', lease: 20.0)->acquire();
        $this->everywhere($hold->owner);
        // From then on all of them count.
        $hold->renew();
        foreach ([2, 1, 0] as $i) {
            self::$all[$i]->client()->flushAll();
            $hold->renew();
            $this->everywhere($hold->owner);
            $hold->renew();
        }
        self::assertFalse($hold->isLost());
        // Two of them lose it between two renewals.
        self::$all[0]->client()->flushAll();
        self::$all[1]->client()->flushAll();
        try {
            $hold->renew();
            self::fail('a majority has lost it');
        } catch (NotHeld $error) {
            self::assertSame('RedLock "k" is not held: a majority of the servers has lost it', $error->getMessage());
            self::assertSame(['k'], $error->keys);
        }
        try {
            $hold->release();
            self::fail('it is lost');
        } catch (NotHeld) {
            $this->everywhere(null);
        }
    }

    public function testItIsLostWhenNoMajorityRenewsIt(): void
    {
        $hold = $this->red->lock('k', lease: 0.9)->acquire();
        $this->stop(0, 1);
        $began = microtime(true);
        $this->waitFor(function () use ($hold): bool {
            try {
                $hold->keep();
                return false;
            } catch (NotHeld) {
                return true;
            }
        }, 'the loss');
        self::assertLessThan(1.3, microtime(true) - $began);
        self::assertTrue($hold->isLost());
        self::assertTrue($hold->awaitLoss(0.0));
    }

    /** It was renewed on one server, and the others have its renewals still to read. */
    public function testALostHoldIsReleasedEverywhere(): void
    {
        $lock = $this->red->lock('k', lease: 1.5);
        $hold = $lock->acquire();
        $this->everywhere($hold->owner);
        $hold->renew();
        $this->stop(0, 1);
        $this->waitFor(function () use ($hold): bool {
            try {
                $hold->keep();
                return false;
            } catch (NotHeld) {
                return true;
            }
        }, 'the loss');
        // Its leases on the first two servers are expired by now.
        $hold = null;
        $this->goOn();
        $began = microtime(true);
        $lock->acquire(5.0)->release();
        self::assertLessThan(1.0, microtime(true) - $began);
        $this->everywhere(null);
    }

    public function testServersWithAnIPv6Address(): void
    {
        @stream_socket_server('tcp://[::1]:0') !== false || self::markTestSkipped('this machine has no IPv6');
        $servers = array_map(fn () => new Server('--bind', '127.0.0.1', '::1'), [1, 2, 3]);
        try {
            $red = new RedLock(array_map(function (Server $server): Locks {
                $redis = new \Redis();
                $redis->connect('::1', $server->port);
                return Locks::on($redis);
            }, $servers));
            self::assertTrue($red->lock('k')->run(fn () => true, 5.0));
            self::assertTrue(Locks::server("[::1]:{$servers[0]->port}")->lock('k')->run(fn () => true, 5.0));
        } finally {
            array_walk($servers, fn (Server $server) => $server->stop());
        }
    }

    public function testNoConnectionIsLeftOpen(): void
    {
        $connections = fn (): int => substr_count(self::$all[1]->client()->rawCommand('CLIENT', 'LIST', 'TYPE', 'normal'), 'cmd=lock.');
        $before = $connections();
        $hold = $this->red->lock('k', lease: 5.0)->acquire();
        $other = self::create();
        self::assertNull($other->lock('k')->tryAcquire(), 'it does not wait for the replies to its releases');
        $other = null;
        $this->waitFor(fn () => $connections() === $before + 1, 'the end of a connection');
        $this->stop(0);
        $hold->renew();
        $hold->release();
        // The first server still has to reply.
        $hold = null;
        $this->red = self::create();
        $this->waitFor(fn () => $connections() === $before, 'the end of the connections');
    }

    public function testKeepRenewsIt(): void
    {
        $hold = $this->red->lock('k', lease: 0.6)->acquire();
        for ($until = microtime(true) + 1.5; microtime(true) < $until; usleep(5000)) {
            $hold->keep();
        }
        self::assertFalse($hold->awaitLoss(0.1));
        $hold->release();
    }

    public function testAConnectionThatIsLostIsMadeAgain(): void
    {
        $hold = $this->red->lock('k', lease: 20.0)->acquire();
        $this->everywhere($hold->owner);
        array_walk(self::$all, fn (Server $server) => $server->client()->rawCommand('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes'));
        $hold->renew();
        array_walk(self::$all, fn (Server $server) => $server->client()->rawCommand('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes'));
        $hold->release();
        $this->everywhere(null);
    }

    public function testAForkHasConnectionsOfItsOwn(): void
    {
        $hold = $this->red->lock('k')->acquire();
        $this->everywhere($hold->owner);
        $pid = pcntl_fork();
        if ($pid === 0) {
            $found = [$hold->isLost(), $this->red->lock('k')->tryAcquire() === null, $this->red->lock('l')->run(fn () => true)];
            self::$all[0]->client()->rPush('found', json_encode($found));
            posix_kill(getmypid(), SIGKILL);
        }
        self::assertSame(['found', '[false,true,true]'], self::$all[0]->client()->blPop(['found'], 20));
        pcntl_waitpid($pid, $status);
        $hold->renew();
        $hold->release();
    }

    public function testAForkThatLeavesChangesNothing(): void
    {
        $hold = $this->red->lock('k')->acquire();
        $this->everywhere($hold->owner);
        $uses = [
            fn () => $hold->release(),
            fn () => $hold->renew(),
            fn () => $hold->keep(),
            fn () => $hold->guard('DEL', 'k'),
            fn () => $hold->drop(),
            fn () => $this->red->close(),
        ];
        $pid = pcntl_fork();
        if ($pid === 0) {
            foreach ($uses as $use) {
                try {
                    $use();
                    $found[] = '';
                } catch (NotHeld $error) {
                    $found[] = $error->getMessage();
                }
            }
            self::$all[0]->client()->rPush('found', json_encode($found));
            posix_kill(getmypid(), SIGKILL);
        }
        $refused = 'RedLock "k" is not held: it belongs to the parent process';
        $found = json_encode([$refused, $refused, $refused, $refused, '', '']);
        self::assertSame(['found', $found], self::$all[0]->client()->blPop(['found'], 20));
        pcntl_waitpid($pid, $status);
        $this->everywhere($hold->owner);
        $hold->renew();
        $hold->release();
        $this->everywhere(null);
    }

    public function testAForkThatReturnsFromTheBodyChangesNothing(): void
    {
        $parent = getmypid();
        $this->red->lock('k')->run(function (): void {
            $pid = pcntl_fork();
            $pid === 0 || pcntl_waitpid($pid, $status);
        });
        if (getmypid() !== $parent) {
            posix_kill(getmypid(), SIGKILL);
        }
        // The parent itself released it; NotHeld would have been thrown otherwise.
        $this->everywhere(null);
    }

    public function testTheErrorOfAMajorityIsThrown(): void
    {
        self::$all[0]->client()->set('k', 'no lock');
        $this->red->lock('k')->acquire(5.0)->release();
        self::$all[1]->client()->set('k', 'no lock');
        try {
            $this->red->lock('k')->acquire(5.0);
            self::fail('a majority refuses it');
        } catch (Refused $error) {
            self::assertSame('WRONGTYPE', $error->reason);
        }
    }

    /** Only one of those that request it holds it. */
    public function testCount(): void
    {
        $pids = array_map(function (): int {
            $pid = pcntl_fork();
            if ($pid === 0) {
                $lock = self::create()->lock('k');
                $redis = self::$all[0]->client();
                for ($i = 0; $i < 5; $i++) {
                    $lock->run(fn () => $redis->set('n', (int) $redis->get('n') + 1));
                }
                posix_kill(getmypid(), SIGKILL);
            }
            return $pid;
        }, [1, 2, 3]);
        array_map(fn (int $pid) => pcntl_waitpid($pid, $status), $pids);
        self::assertSame('15', self::$all[0]->client()->get('n'));
    }

    public function testWhichServersAreRefused(): void
    {
        $locks = array_map(fn (Server $server) => Locks::on($server->client()), self::$all);
        $port = self::$all[0]->port;
        $redis = new \Redis();
        $redis->connect('localhost', $port);
        $all = [
            'locks must be those of at least 3 servers, not 2' => fn () => new RedLock([$locks[0], $locks[1]]),
            "locks: 127.0.0.1:$port and 127.0.0.1:$port are the same server" => fn () => new RedLock([$locks[0], $locks[1], $locks[0]]),
            "locks: 127.0.0.1:$port and localhost:$port are the same server" => fn () => (new RedLock([...$locks, Locks::on($redis)]))
                ->lock('k')->acquire(5.0),
            'locks: each must be made by Locks::server or Locks::on' => fn () => new RedLock([$locks[0], $locks[1], Locks::sentinel(['127.0.0.1:1'], 'm')]),
            'lease must be greater than 0, not 0' => fn () => $this->red->lock('k', lease: 0.0),
            'lease must be at least 1 ms, not 0.0005 s' => fn () => $this->red->lock('k', lease: 0.0005),
        ];
        foreach ($all as $text => $use) {
            try {
                $use();
                self::fail($text);
            } catch (InvalidArgumentException $error) {
                self::assertSame($text, $error->getMessage());
            }
        }
        $this->everywhere(null);
        self::$all[2]->client()->rawCommand('REPLICAOF', '127.0.0.1', $port);
        try {
            $this->red->lock('k')->acquire(5.0);
            self::fail('one is a replica');
        } catch (InvalidArgumentException $error) {
            self::assertSame('locks: 127.0.0.1:' . self::$all[2]->port . ' is a replica', $error->getMessage());
        } finally {
            self::$all[2]->client()->rawCommand('REPLICAOF', 'NO', 'ONE');
        }
    }

    public function testNodesOfOneClusterAreRefused(): void
    {
        $nodes = Server::cluster();
        try {
            $servers = [self::$all[0], ...$nodes];
            $this->expectException(InvalidArgumentException::class);
            $this->expectExceptionMessage('are nodes of one cluster');
            (new RedLock(array_map(fn (Server $server) => Locks::on($server->client()), $servers)))->lock('k')->acquire(5.0);
        } finally {
            array_walk($nodes, fn (Server $server) => $server->stop());
        }
    }

    public function testServersWithAPassword(): void
    {
        $clients = array_map(fn (Server $server) => $server->client(), self::$all);
        $locks = array_map(fn (\Redis $redis) => Locks::on($redis), $clients);
        $with = array_map(function (Server $server): Locks {
            $redis = $server->client();
            $redis->rawCommand('CONFIG', 'SET', 'requirepass', 'secret');
            $redis->auth('secret');
            $redis->select(3);
            return Locks::on($redis);
        }, self::$all);
        try {
            $found = (new RedLock($with))->lock('k')->run(function () use ($clients): int {
                $clients[0]->select(3);
                return $clients[0]->exists('k');
            });
            self::assertSame(1, $found);
            (new RedLock($locks))->lock('k')->acquire(5.0);
            self::fail('there is no password');
        } catch (Refused $error) {
            self::assertSame('NOAUTH', $error->reason);
        } finally {
            array_walk($clients, fn (\Redis $redis) => $redis->rawCommand('CONFIG', 'SET', 'requirepass', ''));
        }
    }

    public function testClosedLocks(): void
    {
        $locks = array_map(fn (Server $server) => Locks::on($server->client()), self::$all);
        $red = new RedLock($locks);
        $red->lock('k')->acquire()->release();
        $locks[1]->close();
        $this->expectException(Closed::class);
        $red->lock('k')->acquire();
    }
}
