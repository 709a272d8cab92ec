<?php

declare(strict_types=1);

namespace LockSo\Tests;

use LockSo\Slot;
use PHPUnit\Framework\TestCase;
use Redis;
use RedisCluster;
use RedisClusterException;
use RedisException;

/** What php-redis' RedisCluster does with commands that wait: the statements of docs/clients/php.md about it. */
final class PhpRedisClusterLibraryTest extends TestCase
{
    /** Its slot is the first server's. */
    private const KEY = 'b';
    /** All that there is to read of a time-out, a redirection and a connection that is lost. */
    private const TROUBLE = 'Unable to send command to the specified node';

    private static Server $one;
    private static Server $two;
    private RedisCluster $cluster;
    /** On the server of KEY. */
    private Redis $redis;

    public static function setUpBeforeClass(): void
    {
        [self::$one, self::$two] = Server::cluster();
    }

    public static function tearDownAfterClass(): void
    {
        self::$one->stop();
        self::$two->stop();
    }

    protected function setUp(): void
    {
        self::$one->client()->flushAll();
        self::$two->client()->flushAll();
        $this->redis = self::$one->client();
        $this->cluster = self::cluster(10.0);
    }

    public function testTheFirstArgumentSaysWhichNode(): void
    {
        foreach (['a', 'b', 'c', 'd'] as $tag) {
            $words = ['LOCK.MACQUIRE', 2, "{{$tag}}1", "{{$tag}}2", 'me'];
            self::assertSame(2, $this->cluster->rawCommand($tag, ...$words));
            self::assertSame(2, $this->cluster->exists("{{$tag}}1", "{{$tag}}2"));
        }
        self::assertSame(1, $this->cluster->rawCommand(['127.0.0.1', self::$one->port], 'LOCK.ACQUIRE', self::KEY, 'me'));
        self::assertGreaterThanOrEqual(8192, Slot::of('a'));
        $this->assertFails(fn () => $this->cluster->rawCommand(self::KEY, 'LOCK.ACQUIRE', 'a', 'me'), 'the wrong one');
        self::assertFalse($this->cluster->rawCommand('LOCK.ACQUIRE', 'l', 'me'), 'without it: the command L');
        self::assertSame(0, $this->cluster->exists('l'));
        self::assertFalse($this->cluster->rawCommand('a', 'LOCK.MACQUIRE', 2, 'a', 'b', 'me'));
        self::assertStringStartsWith('CROSSSLOT ', $this->cluster->getLastError());
    }

    public function testThePagesExampleRuns(): void
    {
        [$code] = ReadmeTest::marked('php cluster', ReadmeTest::PAGE);
        self::assertSame(["both", 0], self::$one->example($code));
        self::assertSame(0, $this->cluster->exists('{user:7}:from', '{user:7}:to'));
    }

    public function testNullIsNullAndEveryErrorIsFalse(): void
    {
        $this->redis->set('{b}string', 'x');
        $this->redis->rawCommand('LOCK.ACQUIRE', self::KEY, 'other');
        self::assertNull($this->ask('LOCK.ACQUIRE', self::KEY, 'me'));
        self::assertNull($this->ask('LOCK.INFO', '{b}nobody'));
        foreach (['NOTHELD' => ['LOCK.RELEASE', self::KEY, 'me'], 'WRONGTYPE' => ['LOCK.ACQUIRE', '{b}string', 'me']] as $code => $words) {
            self::assertFalse($this->ask(...$words));
            self::assertStringStartsWith("$code ", $this->cluster->getLastError());
        }
        self::assertTrue($this->ask('LOCK.WATCH', self::KEY, 'me'), 'LOST');
    }

    public function testAReadTimeOutLeavesAGhost(): void
    {
        $this->redis->rawCommand('LOCK.ACQUIRE', self::KEY, 'other');
        $this->cluster = self::cluster(2.0);
        $this->cluster->set('{b}x', 'v');
        $this->assertFails(fn () => $this->ask('LOCK.ACQUIRE', self::KEY, 'me', 'PX', 20000, 'BLOCK', 60000), 'it takes too long');
        $this->redis->rawCommand('LOCK.RELEASE', self::KEY, 'other');
        self::assertSame('me', $this->redis->rawCommand('LOCK.INFO', self::KEY)[3][0][1]);
        self::assertFalse($this->cluster->get('{b}x'), 'the answer to LOCK.ACQUIRE');
        self::assertSame('v', $this->cluster->get('{b}x'), 'the answer to the first GET');
        self::assertFalse($this->cluster->set('{b}x', 'new'), 'the answer to the second GET');
        self::assertSame(2, self::cluster(10.0)->rawCommand(self::KEY, 'LOCK.CANCEL', self::KEY, 'me', 'RELEASE'));
    }

    public function testAWaitWhoseConnectionIsLostIsTheSameError(): void
    {
        $this->redis->rawCommand('LOCK.ACQUIRE', self::KEY, 'other');
        $waits = $this->ask('CLIENT', 'ID');
        $pid = pcntl_fork();
        if ($pid === 0) {
            $redis = self::$one->client();
            while ($redis->rawCommand('LOCK.INFO', self::KEY)[5] === 0) {
                usleep(1000);
            }
            $redis->rawCommand('CLIENT', 'KILL', 'ID', $waits);
            // Without destructors: what the test has open stays as it is.
            posix_kill(getmypid(), SIGKILL);
        }
        $this->assertFails(fn () => $this->ask('LOCK.ACQUIRE', self::KEY, 'me', 'BLOCK', 60000), 'it is lost');
        pcntl_waitpid($pid, $status);
        self::assertSame(0, $this->redis->rawCommand('LOCK.INFO', self::KEY)[5], 'nobody waits');
    }

    public function testTheReadTimeOutIsPhpsIfNothingIsSaid(): void
    {
        $this->redis->rawCommand('LOCK.ACQUIRE', self::KEY, 'other');
        $before = ini_set('default_socket_timeout', '2');
        try {
            $this->cluster = new RedisCluster(null, [self::address(self::$one)], 2.0);
            $this->assertFails(fn () => $this->ask('LOCK.ACQUIRE', self::KEY, 'me', 'BLOCK', 60000), 'it takes too long');
            $this->cluster = self::cluster(20.0);
            self::assertNull($this->ask('LOCK.ACQUIRE', self::KEY, 'me', 'BLOCK', 3000));
        } finally {
            ini_set('default_socket_timeout', $before);
        }
    }

    /** But an ordinary command does, and has it learnt. */
    public function testARawCommandDoesNotFollowARedirection(): void
    {
        $slot = Slot::of(self::KEY);
        self::assertSame(0, $this->cluster->exists(self::KEY));
        $arrive = Server::move($slot, self::$one, self::$two);
        $acquire = fn () => $this->ask('LOCK.ACQUIRE', self::KEY, 'me');
        $this->assertFails($acquire, 'ASK');
        self::assertSame(0, $this->cluster->exists(self::KEY));
        $this->assertFails($acquire, 'ASK still');
        $arrive();
        $this->assertFails($acquire, 'MOVED');
        $this->assertFails($acquire, 'MOVED still');
        self::assertSame(0, $this->cluster->exists(self::KEY));
        self::assertSame(1, $acquire());
        try {
            $this->redis->rawCommand('LOCK.ACQUIRE', self::KEY, 'me');
            self::fail('it is on another node');
        } catch (RedisException $error) {
            self::assertSame("MOVED $slot " . self::address(self::$two), $error->getMessage(), 'a plain connection says it');
        }
        $this->ask('LOCK.RELEASE', self::KEY, 'me');
        Server::move($slot, self::$two, self::$one)();
    }

    public function testASessionEndsWithAConnectionThatIsMadeAnewWithoutAWord(): void
    {
        self::assertSame(0, $this->cluster->getOption(Redis::OPT_MAX_RETRIES));
        $this->ask('LOCK.ACQUIRE', self::KEY, 'me', 'SESSION');
        self::assertSame(1, $this->redis->rawCommand('CLIENT', 'KILL', 'ID', $this->ask('CLIENT', 'ID')));
        self::assertTrue($this->cluster->set('{b}x', 'v'));
        for ($until = microtime(true) + 20; $this->redis->exists(self::KEY); usleep(10000)) {
            self::assertLessThan($until, microtime(true), 'the session is over');
        }
    }

    private function ask(mixed ...$words): mixed
    {
        return $this->cluster->rawCommand(self::KEY, ...$words);
    }

    private function assertFails(callable $call, string $why): void
    {
        try {
            $call();
            self::fail($why);
        } catch (RedisClusterException $trouble) {
            self::assertSame(self::TROUBLE, $trouble->getMessage(), $why);
        }
    }

    private static function cluster(float $readTimeOut): RedisCluster
    {
        return new RedisCluster(null, [self::address(self::$one)], 2.0, $readTimeOut);
    }

    private static function address(Server $server): string
    {
        return "127.0.0.1:{$server->port}";
    }
}
