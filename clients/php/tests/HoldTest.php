<?php

declare(strict_types=1);

namespace LockSo\Tests;

use LockSo\Connection;
use LockSo\Locks;
use LockSo\NotHeld;
use LockSo\Refused;
use RedisException;

/** Leases, losses and releases. */
final class HoldTest extends LocksTestCase
{
    private int $forked = 0;

    public function testRenewGivesANewLease(): void
    {
        $hold = $this->locks->multi(['k', 'l'], lease: 20.0)->acquire();
        $this->redis->pExpire('k', 5000);
        $hold->renew();
        self::assertGreaterThan(10000, min($this->redis->pttl('k'), $this->redis->pttl('l')));
        $hold->renew(60.0);
        self::assertGreaterThan(50000, min($this->redis->pttl('k'), $this->redis->pttl('l')));
        $this->redis->del('l');
        $this->expectException(NotHeld::class);
        $hold->renew();
    }

    public function testKeepDoesNotShortenALongerLease(): void
    {
        $hold = $this->locks->lock('k', lease: 0.6)->acquire();
        $hold->renew(60.0);
        usleep(300_000);
        $hold->keep();
        self::assertGreaterThan(50000, $this->redis->pttl('k'));
        $hold->renew();
        self::assertGreaterThan(50000, $this->redis->pttl('k'));
    }

    public function testAGuardedCommandRunsOnlyWhileItIsHeld(): void
    {
        foreach ([$this->locks->lock('k'), $this->locks->multi(['k', 'l'])] as $lock) {
            $hold = $lock->acquire();
            self::assertTrue($hold->guard('SET', 'value', 7));
            self::assertSame('7', $hold->guard('GET', 'value'));
            self::assertSame(19, $hold->guard('INCRBY', 'value', 12));
            self::assertNull($hold->guard('GET', 'none'));
            try {
                $hold->guard('LPUSH', 'value', 1);
                self::fail('it is no list');
            } catch (Refused $error) {
                self::assertSame('WRONGTYPE', $error->reason);
            }
            $this->redis->del('k');
            foreach ([1, 2] as $_) {
                try {
                    $hold->guard('SET', 'value', 8);
                    self::fail('it is not held');
                } catch (NotHeld) {
                    self::assertSame('19', $this->redis->get('value'));
                    self::assertTrue($hold->isLost(query: false));
                }
            }
        }
    }

    public function testWhatIsLostIsNotRenewed(): void
    {
        $hold = $this->locks->lock('k', lease: 0.1)->acquire();
        $this->waitFor(fn () => $hold->isLost(query: false), 'the lease to expire');
        $this->expectExceptionMessage('lock "k" is not held: its lease expired');
        $hold->renew(5.0);
    }

    public function testAwaitLossEndsInTime(): void
    {
        $hold = $this->locks->lock('k')->acquire();
        self::$server->signal(SIGSTOP);
        try {
            self::assertLessThan(0.6, $this->timed(function () use ($hold): void {
                try {
                    $hold->awaitLoss(0.3);
                    self::fail('the server does not respond');
                } catch (RedisException) {
                    $this->addToAssertionCount(1);
                }
            }));
        } finally {
            self::$server->signal(SIGCONT);
        }
    }

    public function testKeepRenewsAfterAThirdOfTheLease(): void
    {
        $hold = $this->locks->lock('k', lease: 6.0)->acquire();
        $renewals = $this->commands('lock.renew');
        $renewed = function (int $times) use ($hold, $renewals): bool {
            $hold->keep();
            self::assertSame([$hold->owner], $this->owners('k'));
            return $this->commands('lock.renew') - $renewals === $times;
        };
        self::assertGreaterThan(3.9, $this->timed(fn () => $this->waitFor(fn () => $renewed(2), 'two renewals')));
        $this->redis->del('k');
        $this->expectException(NotHeld::class);
        for ($until = microtime(true) + 20.0; microtime(true) < $until; usleep(5000)) {
            $hold->keep();
        }
    }

    public function testIsLostNoticesALoss(): void
    {
        foreach ([$this->locks->lock('k'), $this->locks->multi(['k', 'l']), $this->locks->semaphore('k', 1)] as $lock) {
            $hold = $lock->acquire();
            self::assertFalse($hold->isLost());
            $this->redis->rawCommand('LOCK.FORCE', 'k');
            self::assertTrue($hold->isLost());
            self::assertTrue($hold->isLost());
            try {
                $hold->release();
                self::fail('it was lost');
            } catch (NotHeld $error) {
                self::assertTrue($hold->isLost());
                self::assertSame($lock->keys, $error->keys);
            }
            self::assertSame(0, $this->redis->exists('k', 'l'), 'the other keys are released');
        }
    }

    public function testTheClockNoticesALossWhenTheServerDoesNotRespond(): void
    {
        $hold = $this->locks->lock('k', lease: 4.0)->acquire();
        self::$server->signal(SIGSTOP);
        try {
            self::assertFalse($hold->isLost(query: false));
            // It waits for a reply until the lease expires, plus the rounding of read time-outs, and not longer.
            self::assertLessThan(8.0, $this->timed(fn () => $this->waitFor(fn () => $hold->isLost(), 'the lease to expire')));
            $this->expectException(NotHeld::class);
            $hold->keep();
        } finally {
            self::$server->signal(SIGCONT);
        }
    }

    public function testALossIsAwaited(): void
    {
        $hold = $this->locks->multi(['k', 'l'])->acquire();
        self::assertGreaterThan(0.2, $this->timed(fn () => self::assertFalse($hold->awaitLoss(0.2))));
        $this->meanwhile(function (): void {
            $this->redis = self::$server->client();
            $this->waitFor(fn () => $this->info('l')['watchers'] === 1, 'a watch');
            $this->redis->del('l');
        });
        self::assertTrue($hold->awaitLoss(20.0, 'l'));
        self::assertTrue($hold->isLost());
    }

    public function testASessionIsBoundToANewConnection(): void
    {
        $hold = $this->locks->lock('k', session: true)->acquire();
        $first = $this->info('k')['holders'][0][9];
        [, $grace] = $this->redis->rawCommand('CONFIG', 'GET', 'lock.session-grace');
        $this->redis->rawCommand('CONFIG', 'SET', 'lock.session-grace', 60000);
        $this->redis->rawCommand('CLIENT', 'KILL', 'ID', $first);
        self::assertFalse($hold->isLost());
        self::assertNotSame($first, $this->info('k')['holders'][0][9]);
        $this->redis->rawCommand('CONFIG', 'SET', 'lock.session-grace', $grace);
        $this->redis->rawCommand('CLIENT', 'KILL', 'ID', $this->info('k')['holders'][0][9]);
        $this->waitFor(fn () => $this->info('k') === null, 'the grace to elapse');
        self::assertTrue($hold->isLost());
    }

    public function testAHoldWithoutReferencesIsReleased(): void
    {
        $hold = $this->locks->lock('k')->acquire();
        $pid = $this->meanwhile(function () use (&$hold): void {
            // The copy in a fork does not release the lock.
            $hold = null;
        });
        pcntl_waitpid($pid, $status);
        self::assertSame([$hold->owner], $this->owners('k'));
        $hold = null;
        self::assertNull($this->info('k'));
    }

    /** @dataProvider leaving */
    public function testAForkThatLeavesChangesNothing(callable $leave, string $error): void
    {
        foreach ($this->locksToLeave() as $lock) {
            $lock->run(function ($hold) use ($lock, $leave, $error): void {
                $before = $this->info('k')['holders'];
                $pid = $this->meanwhile(function () use ($leave, $hold): void {
                    try {
                        $leave($hold, $this->locks);
                        $text = '';
                    } catch (\Throwable $raised) {
                        $text = $raised->getMessage();
                    }
                    self::$server->client()->rPush('left', $text);
                });
                pcntl_waitpid($pid, $status);
                self::assertSame($error === '' ? '' : "{$lock->named()} $error", $this->redis->lPop('left'));
                // The same owner, on the same connection.
                self::assertSame($before[0][1], $this->info('k')['holders'][0][1]);
                self::assertSame($before[0][9], $this->info('k')['holders'][0][9]);
            });
            self::assertNull($this->info('k'));
        }
    }

    /** Each of them holds the key `k`. */
    private function locksToLeave(): array
    {
        return [
            $this->locks->lock('k'),
            $this->locks->lock('k', session: true),
            $this->locks->multi(['k', 'l']),
            Locks::combine($this->locks->lock('k'), Locks::on(self::$server->client())->semaphore('l', 3)),
        ];
    }

    public function leaving(): array
    {
        $refused = 'is not held: it belongs to the parent process';
        return [
            'release' => [fn ($hold) => $hold->release(), $refused],
            'renew' => [fn ($hold) => $hold->renew(), $refused],
            'keep' => [fn ($hold) => $hold->keep(), $refused],
            'guard' => [fn ($hold) => $hold->guard('DEL', 'k'), $refused],
            'isLost' => [fn ($hold) => $hold->isLost() && throw new \LogicException('it is held'), ''],
            'close' => [fn ($hold, $locks) => $locks->close(), ''],
            'a failed body' => [fn ($hold) => $hold->drop(), ''],
        ];
    }

    public function testAForkLearnsFromTheServerOnly(): void
    {
        $hold = $this->locks->lock('k', lease: 0.4)->acquire();
        $pid = $this->meanwhile(function () use ($hold): void {
            self::$server->client()->blPop(['renewed'], 20);
            usleep(450_000);
            $found = [$hold->isLost(query: false), $hold->isLost()];
            self::$server->client()->rawCommand('LOCK.FORCE', 'k');
            self::$server->client()->rPush('found', json_encode([...$found, $hold->isLost()]));
        });
        $hold->renew(20.0);
        $this->redis->rPush('renewed', 1);
        self::assertSame(['found', '[false,false,true]'], $this->redis->blPop(['found'], 20));
        pcntl_waitpid($pid, $status);
    }

    public function testAReleasedHoldIsNotRenewed(): void
    {
        foreach ([fn ($hold) => $hold->release(), fn () => $this->locks->close()] as $end) {
            $hold = $this->locks->lock('k')->acquire();
            $end($hold);
            foreach (['keep', 'renew', 'release'] as $method) {
                try {
                    $hold->$method();
                    self::fail('it was released');
                } catch (NotHeld $error) {
                    self::assertSame('lock "k" is not held: it was released before', $error->getMessage());
                    self::assertSame(['k'], $error->keys);
                }
            }
            self::assertFalse($hold->isLost());
        }
    }

    public function testAForkThatReturnsFromTheBodyChangesNothing(): void
    {
        $parent = getmypid();
        foreach ($this->locksToLeave() as $lock) {
            $lock->run(function (): void {
                $this->forked = pcntl_fork();
                $this->forked === 0 || pcntl_waitpid($this->forked, $status);
            });
            if (getmypid() !== $parent) {
                posix_kill(getmypid(), SIGKILL);
            }
            // The parent itself released it; NotHeld would have been thrown otherwise.
            self::assertNull($this->info('k'));
        }
    }

    public function testASessionThatTheServerHasEndedIsNoticedByTheRelease(): void
    {
        [, $grace] = $this->redis->rawCommand('CONFIG', 'GET', 'lock.session-grace');
        $this->redis->rawCommand('CONFIG', 'SET', 'lock.session-grace', 100);
        $this->redis->rawCommand('CONFIG', 'SET', 'timeout', 1);
        try {
            $hold = $this->locks->lock('k', session: true)->acquire();
            $this->waitFor(function (): bool {
                $this->redis->ping();
                return $this->info('k') === null;
            }, 'the server to close the idle connection');
            $this->expectExceptionObject(new NotHeld('lock "k" is not held: the server reported its loss', reason: 'NOTHELD'));
            $hold->release();
        } finally {
            $this->redis->rawCommand('CONFIG', 'SET', 'timeout', 0);
            $this->redis->rawCommand('CONFIG', 'SET', 'lock.session-grace', $grace);
        }
    }

    public function testAForkHasConnectionsOfItsOwn(): void
    {
        $hold = $this->locks->lock('k')->acquire();
        $pid = $this->meanwhile(function (): void {
            for ($i = 0; $i < 200; $i++) {
                $this->locks->lock('other')->run(fn () => null);
            }
            self::$server->client()->rPush('done', 1);
        });
        for ($i = 0; $i < 200; $i++) {
            self::assertFalse($hold->isLost());
            $hold->renew();
        }
        self::assertNotEmpty(self::$server->client()->blPop(['done'], 50));
        $hold->release();
    }

    public function testAReleaseIsRepeatedAfterALostConnection(): void
    {
        $hold = $this->locks->lock('k')->acquire();
        $this->killOthers();
        $hold->release();
        self::assertNull($this->info('k'));
    }

    public function testALossIsNotHiddenByADeadConnection(): void
    {
        $hold = $this->locks->lock('k')->acquire();
        // Idle for so long that PING is sent before the connection is used.
        usleep(1_100_000);
        $this->killOthers();
        $this->redis->del('k');
        $this->expectException(NotHeld::class);
        $hold->release();
    }

    public function testAReleaseIsRepeatedUntilTheLeaseExpires(): void
    {
        // Longer than it waits for one reply, and the lease begins before `acquire` returns.
        $took = $this->timed(function (): void {
            $hold = $this->locks->lock('k', lease: 3.0)->acquire();
            self::$server->signal(SIGSTOP);
            try {
                $hold->release();
                self::fail('the server does not respond');
            } catch (RedisException) {
                $this->addToAssertionCount(1);
            } finally {
                self::$server->signal(SIGCONT);
            }
        });
        self::assertGreaterThan(3.0, $took);
        self::assertLessThan(8.0, $took);
    }

    /**
     * Connection::__construct relies on OPT_MAX_RETRIES: php-redis would reconnect silently, without the AUTH and
     * SELECT that Connections::open has sent by `send`.
     */
    public function testALostConnectionIsNotReconnected(): void
    {
        $connection = Connection::open('127.0.0.1:' . self::$server->port, 2.0, []);
        $connection->send(['SELECT', 1], 2.0);
        $this->killOthers();
        foreach (['first', 'second'] as $time) {
            try {
                $connection->send(['SET', 'k', $time], 2.0);
                self::fail('it is lost');
            } catch (RedisException) {
                self::assertSame(0, $this->redis->exists('k'), $time);
            }
        }
    }

    /** Closes every connection except the test's own. */
    private function killOthers(): void
    {
        $this->redis->rawCommand('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    }
}
