<?php

declare(strict_types=1);

namespace LockSo\Tests;

use LockSo\Closed;
use LockSo\Deadlock;
use LockSo\LockError;
use LockSo\Locks;
use LockSo\ModuleMissing;
use LockSo\NotAcquired;
use LockSo\NotHeld;
use LockSo\RedLock;
use LockSo\Refused;
use PHPUnit\Framework\TestCase;
use Redis;
use RedisException;

/** Replies that are hard to provoke from a real server at the right moment. */
final class FakeServerTest extends TestCase
{
    private const REFUSED = "-READONLY You can't write against a read only replica.\r\n";

    /** @var list<int> */
    private array $pids = [];
    private Redis $redis;
    /** @var resource */
    private mixed $reported;

    protected function tearDown(): void
    {
        while ($pid = array_pop($this->pids)) {
            posix_kill($pid, SIGKILL);
            pcntl_waitpid($pid, $status);
        }
    }

    public function testDeadlockIsThrownAtOnce(): void
    {
        $text = 'DEADLOCK a waits for k held by b, b waits for l held by a';
        $lock = $this->locks(["-$text\r\n"])->lock('k');
        try {
            $lock->acquire();
            self::fail('it was refused');
        } catch (Deadlock $error) {
            self::assertSame(["lock \"k\": $text", 'DEADLOCK'], [$error->getMessage(), $error->reason]);
        }
    }

    /** What is used, how its errors name it, and the replies before the error. */
    public function uses(): array
    {
        $held = [":1\r\n"];
        return [
            'lock' => [fn ($locks) => $locks->lock('k')->acquire(), 'lock "k"'],
            'fair' => [fn ($locks) => $locks->fair('k')->tryAcquire(), 'fair lock "k"'],
            'read' => [fn ($locks) => $locks->read('k')->run(fn () => null), 'read lock "k"'],
            'write' => [fn ($locks) => $locks->write('k')->acquire(5.0), 'write lock "k"'],
            'multi' => [fn ($locks) => $locks->multi(['k', 'l'])->acquire(), 'multi-key lock "k", "l"'],
            'semaphore' => [fn ($locks) => $locks->semaphore('k', 3)->acquire(), 'semaphore "k"'],
            'session' => [fn ($locks) => $locks->lock('k', session: true)->acquire(), 'lock "k"'],
            'combine' => [fn ($locks) => Locks::combine($locks->write('l'), $locks->semaphore('k', 3))->acquire(), 'semaphore "k"'],
            'locked' => [fn ($locks) => $locks->write('k')->locked(), 'write lock "k"'],
            'info' => [fn ($locks) => $locks->multi(['k', 'l'])->info(), 'multi-key lock "k", "l"'],
            'force' => [fn ($locks) => $locks->semaphore('k', 3)->force(), 'semaphore "k"'],
            'renew' => [fn ($locks) => $locks->read('k')->acquire()->renew(), 'read lock "k"', $held],
            'guard' => [fn ($locks) => $locks->write('k')->acquire()->guard('GET', 'x'), 'write lock "k"', $held],
            'awaitLoss' => [fn ($locks) => $locks->lock('k')->acquire()->awaitLoss(5.0), 'lock "k"', $held],
            'release' => [fn ($locks) => $locks->lock('k')->acquire()->release(), 'lock "k"', $held],
            'latch set' => [fn ($locks) => $locks->latch('k')->set(1), 'latch "k"'],
            'latch countDown' => [fn ($locks) => $locks->latch('k')->countDown(), 'latch "k"'],
            'latch count' => [fn ($locks) => $locks->latch('k')->count(), 'latch "k"'],
            'latch wait' => [fn ($locks) => $locks->latch('k')->wait(), 'latch "k"'],
            'queue push' => [fn ($locks) => $locks->delayedQueue('k')->push('v', 1.0), 'queue "k"'],
            'queue cancel' => [fn ($locks) => $locks->delayedQueue('k')->cancel('i'), 'queue "k"'],
            'queue list' => [fn ($locks) => $locks->delayedQueue('k')->list(), 'queue "k"'],
            'queue consume' => [fn ($locks) => $locks->delayedQueue('k')->consume(fn () => null), 'queue "k"', ["*0\r\n"]],
        ];
    }

    /** @dataProvider uses */
    public function testAnErrorNamesTheLock(callable $use, string $named, array $before = []): void
    {
        $log = ini_set('error_log', '/dev/null');
        $missing = "-ERR unknown command 'LOCK.ACQUIRE', with args beginning with: 'k'";
        foreach ([$missing => ModuleMissing::class, '-WRONGTYPE it is a string' => Refused::class] as $reply => $class) {
            $locks = $this->locks([...$before, ...array_fill(0, 4, "$reply\r\n")]);
            $hint = "unknown command: is lock.so loaded on 127.0.0.1:{$this->redis->getPort()}?";
            self::assertError($class, "$named: " . ($reply === $missing ? $hint : substr($reply, 1)), fn () => $use($locks));
            $this->tearDown();
        }
        ini_set('error_log', $log);
        $locks->close();
        $named = str_contains($this->dataName(), 'combine') ? "$named and write lock \"l\"" : $named;
        self::assertError(Closed::class, "$named: these Locks are closed", fn () => $use($locks));
    }

    public function testAnErrorNamesTheRedLock(): void
    {
        $missing = array_fill(0, 20, "-ERR unknown command 'LOCK.ACQUIRE'\r\n");
        $all = [$this->locks($missing), $this->locks($missing), $this->locks($missing)];
        $red = new RedLock($all);
        $uses = [
            fn () => $red->lock('k')->acquire(),
            fn () => $red->lock('k')->tryAcquire(),
            fn () => $red->lock('k')->locked(),
            fn () => $red->lock('k')->info(),
            fn () => $red->lock('k')->force(),
        ];
        foreach ($uses as $use) {
            $error = self::assertError(ModuleMissing::class, 'RedLock "k": unknown command: is lock.so loaded on 127.0.0.1:', $use);
            self::assertSame('ERR', $error->reason);
        }
        $all[1]->close();
        foreach ($uses as $use) {
            self::assertError(Closed::class, 'RedLock "k": these Locks are closed', $use);
        }
    }

    /** `$use` must throw it, with a text that begins so. */
    private static function assertError(string $class, string $text, callable $use): LockError
    {
        try {
            $use();
        } catch (LockError $error) {
            self::assertSame([$class, $text], [$error::class, substr($error->getMessage(), 0, strlen($text))]);
            return $error;
        }
        self::fail('it was refused');
    }

    public function testAfterATransientErrorTheRequestIsSentAgain(): void
    {
        $errors = [self::REFUSED, "-LOADING\r\n", "-CLUSTERDOWN x\r\n", "-TRYAGAIN x\r\n", "-MASTERDOWN x\r\n", "-UNBLOCKED x\r\n"];
        $hold = $this->locks([...$errors, ":1\r\n", ":0\r\n"])->lock('k')->acquire();
        $hold->release();
        $sent = array_map(fn () => $this->command(), $errors);
        self::assertSame([$hold->owner], array_values(array_unique(array_column($sent, 2))), 'the same owner');
        self::assertSame(['LOCK.ACQUIRE', 'k', $hold->owner, 'PX', '30000', 'ONCE', 'BLOCK', '30000'], $this->command());
        self::assertSame(['LOCK.RELEASE', 'k', $hold->owner], $this->command());
    }

    public function testTheRequestIsNotSentAgainWhenTheWaitHasTimedOut(): void
    {
        $lock = $this->locks([self::REFUSED])->lock('k');
        try {
            $lock->acquire(0.0);
            self::fail('it was refused');
        } catch (Refused $error) {
            self::assertSame('READONLY', $error->reason);
        }
        try {
            $this->locks([self::REFUSED, self::REFUSED, self::REFUSED])->lock('k')->acquire(0.05);
            self::fail('it was refused');
        } catch (NotAcquired $error) {
            self::assertSame('READONLY', $error->reason);
            self::assertInstanceOf(Refused::class, $error->getPrevious());
        }
    }

    public function testKeepToleratesAMasterThatHasBecomeAReplica(): void
    {
        $hold = $this->locks([":1\r\n", self::REFUSED, ":1\r\n", ":0\r\n"])->lock('k', lease: 0.6)->acquire();
        usleep(220_000);
        $hold->keep();
        $hold->keep();
        self::assertFalse($hold->isLost(query: false));
        $hold->release();
        self::assertSame(['LOCK.ACQUIRE', 'LOCK.RENEW', 'LOCK.RENEW'], [$this->command()[0], $this->command()[0], $this->command()[0]]);
    }

    /** The server granted it before the reply arrived, at worst when it received the request. */
    public function testTheLeaseIsCountedFromTheRequest(): void
    {
        $hold = $this->locks([0.25, ":1\r\n", ":0\r\n"])->lock('k', lease: 0.9)->acquire();
        self::assertFalse($hold->isLost(query: false));
        usleep(700_000);
        self::assertTrue($hold->isLost(query: false));
    }

    public function testAfterALostReplyTheRequestIsSentAgain(): void
    {
        $hold = $this->locks([null, ":7\r\n", null, "-NOTHELD x\r\n"])->fair('k', fenced: true)->acquire(50.0);
        self::assertSame(7, $hold->token);
        foreach ([50000, 49999] as $most) {
            $sent = $this->command();
            $left = (int) array_pop($sent);
            self::assertSame(['LOCK.FAIR', 'k', $hold->owner, 'PX', '30000', 'FENCED', 'ONCE', 'BLOCK'], $sent);
            self::assertLessThanOrEqual($most, $left, 'the rest of the wait');
            self::assertGreaterThan(30000, $left);
        }
        // The first release may have been executed.
        $hold->release();
        self::assertFalse($hold->isLost());
    }

    public function testAGuardedCommandIsNotSentAgain(): void
    {
        foreach ([null, ':1'] as $half) {
            $hold = $this->locks([":1\r\n", $half, ":0\r\n"])->lock('k')->acquire();
            try {
                $hold->guard('INCRBY', 'n', 12);
                self::fail('there was no reply');
            } catch (RedisException) {
                $hold->release();
            }
            $sent = array_column([$this->command(), $this->command(), $this->command()], 0);
            self::assertSame(['LOCK.ACQUIRE', 'LOCK.GUARD', 'LOCK.RELEASE'], $sent);
            $this->tearDown();
        }
    }

    public function testWhatMayHaveBeenExecutedIsNotSentAgain(): void
    {
        $uses = [
            'LATCH.DOWN' => fn (Locks $locks) => $locks->latch('l')->countDown(),
            'DELAY.PUSH' => fn (Locks $locks) => $locks->delayedQueue('q')->push('v', 1.0),
            'LOCK.FORCE' => fn (Locks $locks) => $locks->lock('k')->force(),
        ];
        foreach ($uses as $command => $use) {
            $locks = $this->locks([null, ":0\r\n"]);
            try {
                $use($locks);
                self::fail('there was no reply');
            } catch (RedisException) {
                $locks->latch('l')->count();
                self::assertSame([$command, 'GET'], [$this->command()[0], $this->command()[0]]);
            }
            $this->tearDown();
        }
        self::assertSame('x', $this->locks([null, "$1\r\nx\r\n"])->delayedQueue('q')->push('v', 1.0, 'x'));
    }

    /** If its reply is lost, a second LREM could remove the same value of another consumer. */
    public function testAConsumerRemovesAnElementOnce(): void
    {
        $replies = ["*0\r\n", "$1\r\nx\r\n", "$1\r\ni\r\n", null, ":1\r\n"];
        $done = 0;
        $handler = function () use (&$done): void {
            $done++;
        };
        $this->locks($replies)->delayedQueue('q')->consume($handler, stop: function () use (&$done): bool {
            return $done > 0;
        });
        $sent = array_map(fn () => $this->command()[0], $replies);
        self::assertSame(['LRANGE', 'BLMOVE', 'DELAY.PUSH', 'LREM', 'DELAY.CANCEL'], $sent);
    }

    /** The server may have received the renewal. */
    public function testAShorterLeaseCountsFromItsSendingAndALongerOneFromItsReply(): void
    {
        foreach ([[30.0, 0.2], [0.4, 40.0]] as [$lease, $next]) {
            $hold = $this->locks([":1\r\n"])->lock('k', lease: $lease)->acquire();
            posix_kill($this->pids[0], SIGSTOP);
            $began = microtime(true);
            try {
                $hold->renew($next);
                self::fail('the server does not respond');
            } catch (RedisException) {
                self::assertTrue($hold->isLost(query: false));
                self::assertLessThan(3.0, microtime(true) - $began);
            }
            $this->tearDown();
        }
    }

    /** php-redis returns it as a complete one: as null, another error, or another number. */
    public function testHalfAReplyIsIgnored(): void
    {
        foreach ([':', '$', '$-1', '-NO', '-NOTHELD the', ':7', ':70'] as $half) {
            $hold = $this->locks([$half, ":7042\r\n", ":0\r\n"])->lock('k', fenced: true)->acquire(5.0);
            self::assertSame(7042, $hold->token, $half);
            unset($hold);
            $this->tearDown();
        }
    }

    /** The PING after null has what is left of the wait. */
    public function testAWaitEndsInTimeIfTheServerIsSilentAfterNull(): void
    {
        $lock = $this->locks([0.9, "$-1\r\n"], silent: true)->lock('k');
        $began = microtime(true);
        try {
            $lock->acquire(1.0);
            self::fail('there was no grant');
        } catch (NotAcquired) {
            self::assertLessThan(1.2, microtime(true) - $began);
        }
    }

    /** A release that is too late to matter reports the loss, not the connection. */
    public function testTheReleaseOfALostHoldIsNotHeldWithoutAServer(): void
    {
        $hold = $this->locks([":1\r\n", "-NOTHELD x\r\n"])->lock('k', lease: 60.0)->acquire();
        self::assertTrue($hold->isLost());
        $this->tearDown();
        $this->expectExceptionMessage('lock "k" is not held: the server reported its loss');
        $hold->release();
    }

    /** What was reported as lost remains so, even if the server still had it. */
    public function testTheReleaseOfALostHoldThatTheServerHasIsNotHeld(): void
    {
        $hold = $this->locks([":1\r\n", ":0\r\n"])->lock('k', lease: 0.05)->acquire();
        usleep(60_000);
        self::assertTrue($hold->isLost(query: false));
        self::assertError(NotHeld::class, 'lock "k" is not held: its lease expired', fn () => $hold->release());
        self::assertTrue($hold->isLost());
    }

    /** A wait that was in progress is no longer limited by the time to connect. */
    public function testAServerThatWasReachedByAWaitIsNotGivenUp(): void
    {
        $log = ini_set('error_log', '/dev/null');
        $locks = $this->locks([0.4, null, ":1\r\n", ":0\r\n"], connectTimeout: 0.2);
        $locks->lock('k')->acquire()->release();
        ini_set('error_log', $log);
        self::assertSame(['LOCK.ACQUIRE', 'LOCK.ACQUIRE'], [$this->command()[0], $this->command()[0]]);
    }

    /** It may be waiting for the replicas. */
    public function testAFairCallHasTheTimeOfTheReplicas(): void
    {
        $locks = $this->locks([0.4, ":1\r\n", ":0\r\n"], maxBlock: 0.2);
        $hold = $locks->fair('k', replicas: ['n' => 1, 'time' => 0.5])->acquire(5.0);
        self::assertSame('LOCK.FAIR', $this->command()[0]);
        $hold->release();
        self::assertSame('LOCK.RELEASE', $this->command()[0]);
    }

    public function testNotheldAfterATransientErrorIsALoss(): void
    {
        $hold = $this->locks([":1\r\n", self::REFUSED, "-NOTHELD x\r\n"])->lock('k')->acquire();
        $this->expectException(NotHeld::class);
        $hold->release();
    }

    /** The requests that are given up, the replies to the cancellation, and the commands that are sent. */
    public function givingUp(): array
    {
        $cancel = ['LOCK.CANCEL', 'k', 'owner', 'RELEASE'];
        $both = ['LOCK.CANCEL', 'k', 'owner'];
        $each = ['LOCK.MRELEASE', '2', 'k', 'l', 'owner'];
        return [
            'it waited' => [fn ($locks) => $locks->lock('k'), [":1\r\n"], [$cancel]],
            'it was granted' => [fn ($locks) => $locks->fair('k'), [":2\r\n"], [$cancel]],
            'it may still arrive' => [fn ($locks) => $locks->lock('k'), [":0\r\n", ":0\r\n"], [$cancel, $cancel]],
            'the cancellation is lost, too' => [fn ($locks) => $locks->lock('k'), [null, ":1\r\n"], [$cancel, $cancel]],
            'read' => [fn ($locks) => $locks->read('k'), [":1\r\n"], [[...$cancel, 'READ']]],
            'write' => [fn ($locks) => $locks->write('k'), [":1\r\n"], [[...$cancel, 'WRITE']]],
            'permits' => [fn ($locks) => $locks->semaphore('k', 5, 2), [":1\r\n"], [[...$cancel, 'PERMITS', '2']]],
            'multi waited' => [fn ($locks) => $locks->multi(['k', 'l']), [":1\r\n"], [$both]],
            'multi granted' => [fn ($locks) => $locks->multi(['k', 'l']), [":0\r\n", ":2\r\n"], [$both, $each]],
            'multi with modes' => [
                fn ($locks) => $locks->multi(read: ['k'], write: ['l']),
                [":0\r\n", ":2\r\n"],
                [$both, [...$each, 'MODES', 'READ', 'WRITE']],
            ],
            'multi without either' => [
                fn ($locks) => $locks->multi(['k', 'l']),
                [":0\r\n", "-NOTHELD x\r\n", ":0\r\n", "-NOTHELD x\r\n"],
                [$both, $each, $both, $each],
            ],
        ];
    }

    /** @dataProvider givingUp */
    public function testGivingUp(callable $make, array $replies, array $commands): void
    {
        $lock = $make($this->locks([null, ...$replies]));
        try {
            $lock->acquire(0.0);
            self::fail('the connection was closed');
        } catch (RedisException) {
            $sent = $this->command();
            $owner = $sent[$sent[0] === 'LOCK.MACQUIRE' ? 4 : 2];
        }
        // What could not be sent in time is sent at the end.
        unset($lock);
        foreach ($commands as $command) {
            self::assertSame(str_replace('owner', $owner, $command), $this->command());
        }
    }

    /**
     * Locks on a server with these replies, one to each command; a number is a pause in seconds before the next one.
     * After null or half a line it closes the connection. If `$silent`, PING has no reply.
     */
    private function locks(array $replies, bool $silent = false, float $maxBlock = 30.0, float $connectTimeout = 5.0): Locks
    {
        $listener = stream_socket_server('tcp://127.0.0.1:0');
        [$this->reported, $report] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        $pid = pcntl_fork();
        if ($pid === 0) {
            self::serve($listener, $report, $replies, $silent);
            posix_kill(getmypid(), SIGKILL);
        }
        $this->pids[] = $pid;
        $this->redis = new Redis();
        $this->redis->connect('127.0.0.1', (int) explode(':', stream_socket_get_name($listener, false))[1]);
        fclose($report);
        return Locks::on($this->redis, maxBlock: $maxBlock, connectTimeout: $connectTimeout);
    }

    private static function serve(mixed $listener, mixed $report, array $replies, bool $silent): void
    {
        // The program's own connection sends nothing.
        $user = stream_socket_accept($listener);
        while ($connection = @stream_socket_accept($listener, 20)) {
            while (($line = fgets($connection)) !== false) {
                $words = [];
                for ($left = (int) substr($line, 1); $left > 0; $left--) {
                    $words[] = rtrim(stream_get_contents($connection, (int) substr(fgets($connection), 1) + 2), "\r\n");
                }
                if ($words === ['PING']) {
                    // Sent only to check the connection.
                    $silent || fwrite($connection, "+PONG\r\n");
                    continue;
                }
                fwrite($report, json_encode($words) . "\n");
                $reply = array_shift($replies);
                if (is_float($reply)) {
                    usleep((int) ($reply * 1e6));
                    $reply = array_shift($replies);
                }
                // After half a line, too, the connection is closed.
                $reply === null || fwrite($connection, $reply);
                if (!str_ends_with($reply ?? '', "\n")) {
                    break;
                }
            }
            // Without a reply the connection is closed.
            fclose($connection);
        }
    }

    /** The next command that the server received. */
    private function command(): array
    {
        stream_set_timeout($this->reported, 10);
        $line = fgets($this->reported);
        self::assertIsString($line, 'there is no further command');
        return json_decode($line, true);
    }
}
