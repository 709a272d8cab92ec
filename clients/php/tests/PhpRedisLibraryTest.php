<?php

declare(strict_types=1);

namespace LockSo\Tests;

use Redis;
use RedisException;
use RuntimeException;

/** What php-redis itself does with commands that wait: the statements of docs/clients/php.md, but for its RedisCluster. */
final class PhpRedisLibraryTest extends LocksTestCase
{
    private const READ_ERROR = 'socket error on read socket';

    /** The holder for whom the others wait. */
    private Redis $other;

    protected function setUp(): void
    {
        parent::setUp();
        $this->other = self::$server->client();
        self::assertSame(1, $this->other->rawCommand('LOCK.ACQUIRE', 'k', 'other'));
    }

    public function testARawCommandWaits(): void
    {
        $redis = self::$server->client();
        $this->releaseWhenItWaits();
        self::assertSame(1, $redis->rawCommand('LOCK.ACQUIRE', 'k', 'me', 'BLOCK', 20000));
    }

    public function testARawCommandHasNeitherPrefixNorSerializer(): void
    {
        $redis = self::$server->client();
        $redis->setOption(Redis::OPT_PREFIX, 'app:');
        $redis->setOption(Redis::OPT_SERIALIZER, Redis::SERIALIZER_PHP);
        $redis->rawCommand('LOCK.ACQUIRE', 'l', 'me');
        self::assertSame(['me'], $this->owners('l'));
        self::assertSame(0, $redis->exists('l'), 'that has');
        self::assertSame('app:l', $redis->_prefix('l'));
    }

    public function testTheReadTimeOutIsPhpsIfNothingIsSaid(): void
    {
        self::assertSame('60', ini_get('default_socket_timeout'));
        $before = ini_set('default_socket_timeout', '1');
        try {
            $redis = self::$server->client();
            $took = $this->timed(fn () => $this->wait($redis, 'me', self::READ_ERROR));
            self::assertGreaterThan(0.9, $took);
            self::assertLessThan(30.0, $took);
            // It is asked for when the connection is made.
            ini_set('default_socket_timeout', '60');
            $this->wait($redis, 'again', self::READ_ERROR);
            $redis->close();
            ini_set('default_socket_timeout', '1');
            foreach ([-1, 20] as $seconds) {
                $redis = self::$server->client();
                $redis->setOption(Redis::OPT_READ_TIMEOUT, $seconds);
                self::assertFalse($redis->rawCommand('LOCK.ACQUIRE', 'k', 'me', 'BLOCK', 1500));
            }
        } finally {
            ini_set('default_socket_timeout', $before);
        }
    }

    public function testAReadTimeOutOfNoughtIsNoneAtAll(): void
    {
        $redis = self::$server->client();
        $redis->setOption(Redis::OPT_READ_TIMEOUT, 0);
        $this->wait($redis, 'me', self::READ_ERROR);
    }

    /** The time is over for the client alone: it waits on, is granted the lock, and reads that as another answer. */
    public function testAReadTimeOutLeavesAGhost(): void
    {
        $this->redis->set('x', 'v');
        $redis = $this->impatient();
        $this->wait($redis, 'me', self::READ_ERROR);
        $redis->setOption(Redis::OPT_READ_TIMEOUT, 20);
        self::assertTrue($redis->isConnected());
        $this->waitFor(fn () => $this->waiters() === 1, 'the server to have it');
        self::assertSame('me', $this->info('k')['waiters'][0][1]);
        $this->other->rawCommand('LOCK.RELEASE', 'k', 'other');
        self::assertSame(['me'], $this->owners('k'));
        self::assertEqualsWithDelta(20000, $this->redis->pttl('k'), 5000, 'for its whole lease');
        self::assertSame(':1', $redis->get('nothing'), 'the answer to LOCK.ACQUIRE');
        self::assertFalse($redis->set('x', 'new'), 'the answer to the GET, null');
        self::assertSame('+OK', $redis->get('x'), 'the answer to the SET');
        $redis->close();
        self::assertSame(['me'], $this->owners('k'), 'closing it is too late now');
        self::assertSame(2, $this->redis->rawCommand('LOCK.CANCEL', 'k', 'me', 'RELEASE'));
        self::assertNull($this->info('k'));
    }

    public function testACloseEndsTheWait(): void
    {
        $redis = $this->impatient();
        $this->wait($redis, 'me', self::READ_ERROR);
        $this->waitFor(fn () => $this->waiters() === 1, 'the server to have it');
        $redis->close();
        $this->waitFor(fn () => $this->waiters() === 0, 'it to be gone');
        // Of its own commands that wait it closes the connection by itself.
        $this->expectExceptionMessage('read error on connection');
        try {
            $this->impatient()->blPop(['list'], 20);
        } finally {
            $this->waitFor(fn () => (int) $this->redis->info('clients')['blocked_clients'] === 0, 'it to be gone');
        }
    }

    public function testACancelSaysWhatThereWas(): void
    {
        foreach ([1 => false, 2 => true] as $answer => $granted) {
            $this->wait($redis = $this->impatient(), 'me', self::READ_ERROR);
            $this->waitFor(fn () => $this->waiters() === 1, 'the server to have it');
            $granted && $this->other->rawCommand('LOCK.RELEASE', 'k', 'other');
            self::assertSame($answer, $this->redis->rawCommand('LOCK.CANCEL', 'k', 'me', 'RELEASE'));
            self::assertSame(0, $this->redis->rawCommand('LOCK.CANCEL', 'k', 'me', 'RELEASE'));
            self::assertSame($granted ? [] : ['other'], $this->owners('k'));
            $redis->close();
        }
    }

    public function testASignalsHandlerRunsWhenTheCommandIsAnswered(): void
    {
        pcntl_async_signals(true);
        pcntl_signal(SIGUSR1, fn () => throw new RuntimeException('told to stop'));
        $redis = self::$server->client();
        $test = getmypid();
        $this->meanwhile(function () use ($test): void {
            $this->redis = self::$server->client();
            $this->waitFor(fn () => $this->waiters() === 1, 'it to wait');
            posix_kill($test, SIGUSR1);
            $pending = '/^ShdPnd:\s*0*[1-9a-f]/m';
            $this->waitFor(fn () => !preg_match($pending, file_get_contents("/proc/$test/status")), 'it to have the signal');
            self::assertSame(1, $this->waiters());
            $this->redis->set('waited on', 1);
            $this->redis->rawCommand('LOCK.RELEASE', 'k', 'other');
        });
        try {
            $redis->rawCommand('LOCK.ACQUIRE', 'k', 'me', 'BLOCK', 20000);
            self::fail('it was told to stop');
        } catch (RuntimeException $error) {
            self::assertSame('told to stop', $error->getMessage());
        } finally {
            pcntl_signal(SIGUSR1, SIG_DFL);
        }
        self::assertSame(1, $this->redis->exists('waited on'));
        self::assertSame(['me'], $this->owners('k'), 'and nobody has the answer');
    }

    public function testAProcessThatIsEndedWaitsNoMore(): void
    {
        $pid = $this->meanwhile(fn () => self::$server->client()->rawCommand('LOCK.ACQUIRE', 'k', 'me', 'BLOCK', 0));
        $this->waitFor(fn () => $this->waiters() === 1, 'it to wait');
        posix_kill($pid, SIGTERM);
        $this->waitFor(fn () => $this->waiters() === 0, 'it to be gone');
    }

    public function testAWaitIsNotCountedByMaxExecutionTime(): void
    {
        $port = self::$server->port;
        $wait = "\$redis->rawCommand('LOCK.ACQUIRE', 'k', 'me', 'BLOCK', 1500)";
        $code = "set_time_limit(1); \$redis = new Redis(); \$redis->connect('127.0.0.1', $port); var_dump($wait);";
        exec(PHP_BINARY . ' -r ' . escapeshellarg($code), $output, $status);
        self::assertSame([['bool(false)'], 0], [$output, $status]);
    }

    /** What it has sent it does not send again. */
    public function testAWaitWhoseConnectionIsLostIsAnError(): void
    {
        $redis = self::$server->client();
        $this->meanwhile(function (): void {
            $this->redis = self::$server->client();
            $this->waitFor(fn () => $this->waiters() === 1, 'it to wait');
            $this->kill($this->info('k')['waiters'][0][7]);
        });
        $this->wait($redis, 'me', self::READ_ERROR);
        self::assertSame(0, $this->waiters());
        self::assertTrue($redis->ping(), 'it has connected anew by itself');
    }

    public function testAConnectionThatWasLostIsMadeAnewWithoutAWord(): void
    {
        $redis = self::$server->client();
        $redis->select(1);
        self::assertSame(10, $redis->getOption(Redis::OPT_MAX_RETRIES));
        $redis->rawCommand('LOCK.ACQUIRE', 's', 'me', 'SESSION');
        $this->redis->select(1);
        $session = $this->info('s')['holders'][0][9];
        $this->kill($session);
        $redis->set('in the same database', 1);
        self::assertSame(1, $this->redis->exists('in the same database'));
        self::assertNotSame($session, $redis->rawCommand('CLIENT', 'ID'));
        $this->waitFor(fn () => $this->info('s') === null, 'the session to be over');
    }

    public function testAConnectionThatWasClosedIsMadeAnewInAnotherDatabase(): void
    {
        $redis = self::$server->client();
        $redis->select(1);
        $redis->close();
        $redis->set('in which database', 1);
        $old = version_compare(phpversion('redis'), '6.0.0', '<');
        $old || $this->redis->select(1);
        self::assertSame(1, $this->redis->exists('in which database'));
        self::assertSame(1, $redis->getDbNum(), 'it says');
    }

    public function testOptMaxRetriesMakesThatAnError(): void
    {
        $redis = self::$server->client();
        $redis->setOption(Redis::OPT_MAX_RETRIES, 0);
        $this->kill($redis->rawCommand('CLIENT', 'ID'));
        foreach (['Connection lost', 'went away', 'went away'] as $text) {
            try {
                $redis->ping();
                self::fail('it is lost');
            } catch (RedisException $error) {
                self::assertStringContainsString($text, $error->getMessage());
            }
        }
        $redis->connect('127.0.0.1', self::$server->port);
        self::assertTrue($redis->ping());
    }

    public function testTheProgramsOwnRetryIsASecondHoldWithoutOnce(): void
    {
        foreach ([2 => [], 1 => ['ONCE']] as $holds => $once) {
            $words = ['LOCK.ACQUIRE', "k$holds", 'me', ...$once];
            self::assertSame(1, $this->other->rawCommand(...$words));
            self::assertSame($holds, $this->other->rawCommand(...$words));
        }
    }

    public function testAPersistentConnectionKeepsASession(): void
    {
        $redis = $this->persistent();
        $id = $redis->rawCommand('CLIENT', 'ID');
        $redis->rawCommand('LOCK.ACQUIRE', 's', 'me', 'SESSION');
        unset($redis);
        self::assertSame($id, $this->info('s')['holders'][0][9], 'bound to a connection that lives');
        $redis = $this->persistent();
        self::assertSame($id, $redis->rawCommand('CLIENT', 'ID'), 'which is another object\'s now');
        $redis->close();
        $this->waitFor(fn () => $this->info('s') === null, 'the session to be over');
        $redis = self::$server->client();
        $redis->rawCommand('LOCK.ACQUIRE', 's', 'me', 'SESSION');
        unset($redis);
        $this->waitFor(fn () => $this->info('s') === null, 'that of another kind to go with the object');
    }

    public function testAPersistentConnectionHasTheReadTimeOutOfItsLastUser(): void
    {
        $redis = $this->persistent();
        $redis->setOption(Redis::OPT_READ_TIMEOUT, 0.3);
        unset($redis);
        $redis = $this->persistent(20.0);
        self::assertSame(20.0, $redis->getOption(Redis::OPT_READ_TIMEOUT), 'it says');
        $this->wait($redis, 'me', self::READ_ERROR);
        $redis->close();
        $redis = $this->persistent();
        $redis->setOption(Redis::OPT_READ_TIMEOUT, 0.3);
        unset($redis);
        $redis = $this->persistent();
        $redis->setOption(Redis::OPT_READ_TIMEOUT, 20);
        self::assertFalse($redis->rawCommand('LOCK.ACQUIRE', 'k', 'me', 'BLOCK', 600));
        $redis->close();
    }

    public function testWhatIsPipelinedBehindAWaitWaitsWithIt(): void
    {
        $redis = self::$server->client();
        $redis->multi(Redis::PIPELINE);
        $redis->rawCommand('LOCK.ACQUIRE', 'k', 'me', 'BLOCK', 20000);
        $redis->incr('n');
        $this->meanwhile(function (): void {
            $this->redis = self::$server->client();
            $this->waitFor(fn () => $this->waiters() === 1, 'it to wait');
            $this->redis->incr('n');
            $this->redis->rawCommand('LOCK.RELEASE', 'k', 'other');
        });
        self::assertSame([1, 2], $redis->exec());
    }

    public function testATransactionDoesNotWait(): void
    {
        $redis = self::$server->client();
        $redis->multi();
        $redis->rawCommand('LOCK.ACQUIRE', 'k', 'me', 'BLOCK', 20000);
        $redis->get('x');
        self::assertSame([false, false], $redis->exec());
    }

    /** false is null, and also some errors. */
    public function testErrorsAreThrownOrFalse(): void
    {
        $redis = self::$server->client();
        $redis->set('string', 'x');
        self::assertFalse($redis->rawCommand('LOCK.ACQUIRE', 'k', 'me'));
        self::assertNull($redis->getLastError());
        foreach (['WRONGTYPE' => ['LOCK.ACQUIRE', 'string', 'me'], 'ERR' => ['LOCK.ACQUIRE', 'k']] as $code => $words) {
            self::assertFalse($redis->rawCommand(...$words));
            self::assertStringStartsWith("$code ", $redis->getLastError());
            // It stays.
            self::assertFalse($redis->rawCommand('LOCK.ACQUIRE', 'k', 'me'));
            self::assertStringStartsWith("$code ", $redis->getLastError());
            $redis->clearLastError();
        }
        $noReplica = ['LOCK.ACQUIRE', 'l', 'me', 'REPLICAS', 1, 10];
        foreach (['NOTHELD' => ['LOCK.RELEASE', 'k', 'me'], 'NOREPLICAS' => $noReplica] as $code => $words) {
            try {
                $redis->rawCommand(...$words);
                self::fail('it is an error');
            } catch (RedisException $error) {
                self::assertStringStartsWith("$code ", $error->getMessage());
            }
        }
    }

    public function testWhatRepliesLookLike(): void
    {
        $redis = self::$server->client();
        $token = $redis->rawCommand('LOCK.ACQUIRE', 'f', 'me', 'FENCED');
        self::assertIsInt($token);
        self::assertFalse($redis->rawCommand('LOCK.INFO', 'nobody has it'));
        $reply = $redis->rawCommand('LOCK.INFO', 'f');
        $info = array_column(array_chunk($reply, 2), 1, 0);
        self::assertSame(['exclusive', 0, [], $token], [$info['mode'], $info['waiting'], $info['waiters'], $info['token']]);
        $holder = array_column(array_chunk($info['holders'][0], 2), 1, 0);
        self::assertSame(['me', 1, false], [$holder['owner'], $holder['holds'], $holder['session']]);
        self::assertTrue($redis->rawCommand('LOCK.WATCH', 'f', 'another'));
        $redis->setOption(Redis::OPT_REPLY_LITERAL, true);
        self::assertSame('LOST', $redis->rawCommand('LOCK.WATCH', 'f', 'another'));
    }

    public function testItDoesNotUnderstandResp3(): void
    {
        $redis = self::$server->client();
        $this->expectExceptionMessage("protocol error, got '%' as reply-type byte");
        $redis->rawCommand('HELLO', 3);
    }

    /** Has the lock released as soon as somebody waits for it. */
    private function releaseWhenItWaits(): void
    {
        $this->meanwhile(function (): void {
            $this->redis = self::$server->client();
            $this->waitFor(fn () => $this->waiters() === 1, 'it to wait');
            $this->redis->rawCommand('LOCK.RELEASE', 'k', 'other');
        });
    }

    /** Waits for what does not come in time. */
    private function wait(Redis $redis, string $owner, string $error): void
    {
        try {
            $redis->rawCommand('LOCK.ACQUIRE', 'k', $owner, 'PX', 20000, 'BLOCK', 60000);
            self::fail('the other has it');
        } catch (RedisException $trouble) {
            self::assertSame($error, $trouble->getMessage());
        }
    }

    private function impatient(): Redis
    {
        $redis = self::$server->client();
        $redis->setOption(Redis::OPT_READ_TIMEOUT, 0.3);
        return $redis;
    }

    private function persistent(float $readTimeOut = 0.0): Redis
    {
        $redis = new Redis();
        $redis->pconnect('127.0.0.1', self::$server->port, 2.0, null, 0, $readTimeOut);
        return $redis;
    }

    private function kill(int $id): void
    {
        self::assertSame(1, $this->redis->rawCommand('CLIENT', 'KILL', 'ID', $id));
    }
}
