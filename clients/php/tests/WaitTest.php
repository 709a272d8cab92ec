<?php

declare(strict_types=1);

namespace LockSo\Tests;

use LockSo\Locks;
use LockSo\NotAcquired;
use LockSo\Refused;
use Redis;
use RedisException;
use RuntimeException;

/** Waits that fail, and what is left of them. */
final class WaitTest extends LocksTestCase
{
    public function testTheProgramsConnectionIsNotUsed(): void
    {
        $user = self::$server->client();
        $user->setOption(Redis::OPT_PREFIX, 'app:');
        $user->setOption(Redis::OPT_SERIALIZER, Redis::SERIALIZER_PHP);
        $locks = Locks::on($user);
        $user->multi();
        self::assertSame(1, $locks->lock('k')->run(fn () => $this->redis->exists('k')), 'the key has no prefix');
        self::assertSame([], $user->exec());
    }

    public function testAWaitThatLosesItsConnectionContinues(): void
    {
        $hold = $this->locks->lock('k')->acquire();
        $this->meanwhile(function (): void {
            $owner = Locks::on(self::$server->client())->lock('k')->run(fn ($hold) => $hold->owner, 20.0);
            self::$server->client()->rPush('got', $owner);
        });
        foreach ([1, 2, 3] as $_) {
            $this->waitFor(fn () => $this->waiters() === 1, 'a waiter');
            $id = $this->info('k')['waiters'][0][7];
            $owners[] = $this->info('k')['waiters'][0][1];
            $this->redis->rawCommand('CLIENT', 'KILL', 'ID', $id);
            $this->waitFor(fn () => !in_array($id, array_column($this->info('k')['waiters'], 7), true), 'the waiter to be removed');
        }
        self::assertCount(1, array_unique($owners), 'the same owner requests again');
        $this->waitFor(fn () => $this->waiters() === 1, 'a waiter');
        $hold->release();
        self::assertSame(['got', $owners[0]], $this->redis->blPop(['got'], 10));
        self::assertNull($this->info('k'));
    }

    public function testAServerThatStopsRespondingIsGivenUp(): void
    {
        $hold = $this->locks->lock('k')->acquire();
        $locks = Locks::on(self::$server->client());
        $clients = count($this->redis->client('list'));
        self::$server->signal(SIGSTOP);
        try {
            $took = $this->timed(function () use ($locks): void {
                try {
                    $locks->lock('k')->acquire(0.3);
                    self::fail('the server does not respond');
                } catch (NotAcquired $error) {
                    self::assertInstanceOf(RedisException::class, $error->getPrevious());
                }
            });
        } finally {
            self::$server->signal(SIGCONT);
        }
        // A tenth of a second more, and what the machine is late.
        self::assertLessThan(1.0, $took);
        $hold->release();
        // The server now reads what was sent meanwhile, and closes those connections.
        $this->waitFor(fn () => $this->info('k') === null && count($this->redis->client('list')) <= $clients, 'nothing to be left');
        // The cancellation that could not be sent is sent before the next request.
        $this->redis->rawCommand('CONFIG', 'RESETSTAT');
        $locks->lock('other')->acquire()->release();
        self::assertGreaterThan(0, $this->commands('lock.cancel'));
        // Once, unless the reply is late.
        $this->waitFor(function () use ($locks): bool {
            $this->redis->rawCommand('CONFIG', 'RESETSTAT');
            $locks->lock('other')->acquire()->release();
            return $this->commands('lock.cancel') === 0;
        }, 'no further LOCK.CANCEL');
    }

    public function testAServerThatWasNeverReachedIsGivenUp(): void
    {
        $port = self::$server->port;
        $ways = [
            'nobody listens' => [Server::freePort(), fn () => null, fn () => null],
            'it does not respond' => [$port, fn () => self::$server->signal(SIGSTOP), fn () => self::$server->signal(SIGCONT)],
            'it is full' => [
                $port,
                fn () => $this->redis->config('SET', 'maxclients', '1'),
                fn () => $this->redis->config('SET', 'maxclients', '1000'),
            ],
        ];
        $log = ini_set('error_log', '/dev/null');
        foreach ($ways as $way => [$port, $begin, $end]) {
            // The other connections of this test have ended by then.
            unset($this->locks);
            $begin();
            try {
                foreach (['lock', 'fair'] as $kind) {
                    foreach ([20.0, null] as $wait) {
                        $locks = Locks::server("127.0.0.1:$port", connectTimeout: 0.3);
                        $took = $this->timed(function () use ($locks, $kind, $wait, $way): void {
                            try {
                                $locks->$kind('k')->acquire($wait);
                                self::fail($way);
                            } catch (RedisException $error) {
                                $way !== 'nobody listens' || self::assertStringContainsString('refused', $error->getMessage());
                            }
                        });
                        self::assertGreaterThan(0.29, $took, $way);
                        self::assertLessThan(1.5, $took, $way);
                    }
                }
            } finally {
                $end();
            }
        }
        ini_set('error_log', $log);
        self::assertNull($this->info('k'));
    }

    public function testACancellationThatIsOwedIsSentInTheEnd(): void
    {
        $locks = Locks::on(self::$server->client());
        $clients = count($this->redis->client('list'));
        self::$server->signal(SIGSTOP);
        try {
            $locks->lock('k')->acquire(0.1);
            self::fail('the server does not respond');
        } catch (NotAcquired) {
            self::$server->signal(SIGCONT);
        }
        $this->waitFor(fn () => count($this->redis->client('list')) <= $clients, 'the server to read what was sent');
        $this->redis->rawCommand('CONFIG', 'RESETSTAT');
        // The last variable that refers to them.
        unset($locks);
        self::assertGreaterThan(0, $this->commands('lock.cancel'));
        self::assertNull($this->info('k'));
    }

    public function testACancellationThatIsOwedSurvivesAFailover(): void
    {
        $locks = Locks::on(self::$server->client());
        self::$server->signal(SIGSTOP);
        try {
            $locks->lock('k')->acquire(0.1);
            self::fail('the server does not respond');
        } catch (NotAcquired) {
            self::$server->signal(SIGCONT);
        }
        $this->redis->rawCommand('REPLICAOF', '127.0.0.1', 1);
        try {
            $locks->lock('other')->acquire(0.0);
            self::fail('it is a replica');
        } catch (Refused $error) {
            self::assertSame('READONLY', $error->reason);
        } finally {
            $this->redis->rawCommand('REPLICAOF', 'NO', 'ONE');
        }
        $this->redis->rawCommand('CONFIG', 'RESETSTAT');
        $locks->lock('other')->acquire()->release();
        self::assertGreaterThan(0, $this->commands('lock.cancel'));
        self::assertNull($this->info('k'));
    }

    /** It keeps its place, so its BLOCK is all that is left, and the package ends the call. */
    public function testTheEndOfAFairWaitsBlockingCallIsNoOutage(): void
    {
        $log = tempnam(sys_get_temp_dir(), 'lock-so-');
        $before = ini_set('error_log', $log);
        $locks = Locks::on(self::$server->client(), maxBlock: 0.2);
        $hold = $this->locks->fair('k')->acquire();
        $requests = $this->commands('lock.fair');
        try {
            self::assertNull($locks->fair('k')->tryAcquire(0.9));
            self::assertGreaterThan($requests + 2, $this->commands('lock.fair'));
            self::assertSame('', file_get_contents($log));
        } finally {
            ini_set('error_log', $before);
            unlink($log);
        }
    }

    public function testAnExceptionOfASignalHandlerLeavesNothingBehind(): void
    {
        pcntl_async_signals(true);
        pcntl_signal(SIGUSR1, fn () => throw new RuntimeException('stop requested'));
        $test = getmypid();
        $hold = $this->locks->lock('k')->acquire();
        $this->meanwhile(function () use ($test, $hold): void {
            $this->redis = self::$server->client();
            $this->waitFor(fn () => $this->waiters() === 1, 'a waiter');
            posix_kill($test, SIGUSR1);
            $this->redis->rawCommand('LOCK.RELEASE', 'k', $hold->owner);
        });
        try {
            $this->locks->lock('k')->acquire();
            self::fail('it received a signal to stop');
        } catch (RuntimeException $error) {
            self::assertSame('stop requested', $error->getMessage());
        } finally {
            pcntl_signal(SIGUSR1, SIG_DFL);
        }
        self::assertNull($this->info('k'));
    }

    public function testAProcessThatIsKilledDoesNotWaitAnyMore(): void
    {
        $hold = $this->locks->fair('k')->acquire();
        $pid = $this->meanwhile(fn () => Locks::on(self::$server->client())->lock('k')->acquire());
        $this->waitFor(fn () => $this->waiters() === 1, 'a waiter');
        posix_kill($pid, SIGKILL);
        $this->waitFor(fn () => $this->waiters() === 0, 'the waiter to be removed');
        $hold->release();
        self::assertNull($this->info('k'));
    }

    public function testAWaitMayBeLongerThanTheProgramsTimeOuts(): void
    {
        $before = ini_set('default_socket_timeout', '1');
        $user = self::$server->client();
        $user->setOption(Redis::OPT_READ_TIMEOUT, 0.5);
        $hold = $this->locks->lock('k')->acquire();
        try {
            self::assertGreaterThan(1.5, $this->timed(fn () => Locks::on($user)->lock('k')->tryAcquire(1.5)));
        } finally {
            ini_set('default_socket_timeout', $before);
        }
        self::assertSame(1, preg_match('/cmdstat_lock.acquire:calls=(\d+)/', $this->redis->rawCommand('INFO', 'commandstats'), $found));
        self::assertSame(0, $this->waiters());
    }
}
