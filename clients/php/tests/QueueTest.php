<?php

declare(strict_types=1);

namespace LockSo\Tests;

use Closure;
use InvalidArgumentException;
use LockSo\Closed;
use LockSo\DelayedQueue;
use LockSo\Job;
use LockSo\Locks;
use LockSo\Refused;
use RedisException;
use RuntimeException;

final class QueueTest extends LocksTestCase
{
    /** @var list<array{string, int}> the value and the tries of each job */
    private array $jobs = [];
    private string $log;
    private string $logBefore;

    protected function setUp(): void
    {
        parent::setUp();
        $this->log = tempnam(sys_get_temp_dir(), 'lock-so-');
        $this->logBefore = ini_set('error_log', $this->log);
    }

    protected function tearDown(): void
    {
        ini_set('error_log', $this->logBefore);
        unlink($this->log);
        parent::tearDown();
    }

    public function testWhatIsPendingIsShownReplacedAndCancelled(): void
    {
        $queue = $this->locks->delayedQueue('q');
        self::assertSame('one', $queue->push("\xff", 60.0, 'one'));
        $id = $queue->push('early', 30.0);
        [$first, $second] = $queue->list();
        self::assertSame([$id, 'early', 'one', "\xff"], [$first['id'], $first['value'], $second['id'], $second['value']]);
        self::assertEqualsWithDelta(60.0, $second['left'], 10.0);
        self::assertCount(1, $queue->list(1));
        $queue->push('later', 90.0, $id);
        self::assertSame(["\xff", 'later'], array_column($queue->list(), 'value'));
        self::assertTrue($queue->cancel($id));
        self::assertFalse($queue->cancel($id));
        $queue->push('now', 0.0, 'one');
        self::assertSame(['q', 'now'], $this->redis->blPop(['q'], 10));
    }

    public function testJobsAreDone(): void
    {
        $this->locks->delayedQueue('q')->push('late', 0.2);
        $most = PHP_INT_MAX;
        $this->redis->rPush('q', '1', "lock-so:$most:many", 'lock-so:2:tried', 'lock-so:0:no', 'lock-so:x:y', 'lock-so:5:over');
        $this->consume(5);
        self::assertSame([['1', 1], ['tried', 3], ['no', 1], ['lock-so:x:y', 1], ['late', 1]], $this->jobs);
        self::assertSame(['many', 'over'], $this->redis->lRange('{q}:failed', 0, -1));
        $this->redis->del('{q}:failed');
        self::assertSame([], $this->redis->keys('*'), 'nothing is left');
    }

    public function testAJobThatFailsIsTriedAgainLaterEachTime(): void
    {
        $this->redis->rPush('a{q}', 'bad');
        $took = $this->timed(fn () => $this->consume(3, fn () => throw new RuntimeException('no'), list: 'a{q}', backoff: 0.2));
        self::assertGreaterThan(0.2 + 0.4, $took);
        self::assertSame([['bad', 1], ['bad', 2], ['bad', 3]], $this->jobs);
        self::assertSame('lock-so:3:bad', $this->locks->delayedQueue('a{q}')->list()[0]['value']);
        self::assertStringContainsString('RuntimeException: no', file_get_contents($this->log));
        $this->locks->delayedQueue('a{q}')->consume(fn () => null, maxTries: 3, stop: fn () => $this->redis->exists('a{q}:failed') === 1);
        self::assertSame(['bad'], $this->redis->lRange('a{q}:failed', 0, -1));
    }

    public function testAJobOfADeadConsumerIsDeliveredAgain(): void
    {
        $this->redis->rPush('q', 'job');
        $pid = $this->meanwhile(function (): void {
            Locks::on(self::$server->client())->delayedQueue('q')->consume(function (): void {
                self::$server->client()->rPush('begun', 1);
                sleep(60);
            }, timeout: 0.5);
        });
        self::assertNotEmpty($this->redis->blPop(['begun'], 10));
        posix_kill($pid, SIGKILL);
        $this->consume(1);
        self::assertSame([['job', 2]], $this->jobs);
    }

    public function testWhatADeadConsumerHasLeftIsDelivered(): void
    {
        $this->redis->rPush('{q}:taken', '7', '7', 'lock-so:1:tried');
        $this->consume(3);
        sort($this->jobs);
        self::assertSame([['7', 1], ['7', 1], ['tried', 2]], $this->jobs);
        self::assertSame([], $this->redis->keys('*'), 'nothing is left');
    }

    /** Another consumer has claimed it. */
    public function testWhatIsNoLongerThereIsForgotten(): void
    {
        $this->redis->rPush('q', 'job');
        $this->meanwhile(function (): void {
            // Removes it between BLMOVE and LREM, again and again.
            $redis = self::$server->client();
            $redis->rawCommand('SET', 'ready', 1);
            while (true) {
                $redis->lRem('{q}:taken', 'job', 1) > 0 && $redis->rPush('stolen', 1) && $redis->rPush('q', 'job');
            }
        });
        $this->waitFor(fn () => $this->redis->exists('ready') === 1, 'the thief');
        $this->locks->delayedQueue('q')->consume(fn () => null, stop: function (): bool {
            $this->redis->lLen('q') === 0 && $this->redis->rPush('q', 'job');
            return $this->redis->lLen('stolen') > 0;
        });
        self::assertSame([], $this->locks->delayedQueue('q')->list(), 'its claim is cancelled');
    }

    public function testAJobThatTakesLongerThanItsTimeoutRunsAgain(): void
    {
        $this->redis->rPush('q', 'slow');
        $this->consume(2, function (Job $job): void {
            $job->tries === 1 && $this->waitFor(fn () => $this->redis->lLen('q') === 1, 'the next delivery');
        }, timeout: 0.2);
        self::assertSame([['slow', 1], ['slow', 2]], $this->jobs);
        self::assertStringContainsString('longer than its timeout', file_get_contents($this->log));
    }

    public function testAnOutageDoesNotEndAConsumer(): void
    {
        $stop = false;
        $this->redis->rPush('q', 'first', 'second');
        $this->consume(2, function (Job $job): void {
            $this->redis->rawCommand('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
        });
        self::assertSame([['first', 1], ['second', 1]], $this->jobs);
        self::assertSame([], $this->redis->keys('*'));
    }

    public function testAServerWithoutMemoryGetsTheClaimLater(): void
    {
        $this->redis->rPush('q', 'job');
        $this->redis->config('SET', 'maxmemory', '1');
        $calls = 0;
        $this->consume(1, stop: function () use (&$calls): void {
            $calls++ === 2 && $this->redis->config('SET', 'maxmemory', '0');
        });
        self::assertSame([['job', 1]], $this->jobs);
        self::assertStringContainsString('OOM', file_get_contents($this->log));
    }

    public function testWhatEndsAConsumer(): void
    {
        $this->redis->set('q', 'no list');
        try {
            $this->consume(1);
            self::fail('it is no list');
        } catch (Refused $error) {
            self::assertSame('WRONGTYPE', $error->reason);
        }
        $locks = Locks::on(self::$server->client());
        $locks->close();
        $this->expectException(Closed::class);
        $locks->delayedQueue('q')->consume(fn () => null);
    }

    public function testAServerThatWasNeverReached(): void
    {
        $server = new Server();
        $locks = Locks::on($server->client(), connectTimeout: 0.3);
        $server->stop();
        $this->expectException(RedisException::class);
        $locks->delayedQueue('q')->consume(fn () => null);
    }

    /** @dataProvider badOptions */
    public function testAnErrorNamesTheOption(callable $use, string $text): void
    {
        $this->expectExceptionMessage($text);
        $this->expectException(InvalidArgumentException::class);
        $use($this->locks->delayedQueue('q'));
    }

    /** @return array<string, array{callable(DelayedQueue): mixed, string}> */
    public function badOptions(): array
    {
        return [
            'delay' => [fn ($queue) => $queue->push('v', -0.1), 'delay must not be negative'],
            'value' => [fn ($queue) => $queue->push('lock-so:12:v', 1.0), 'value must not begin'],
            'id' => [fn ($queue) => $queue->push('v', 1.0, ''), 'id must not be empty'],
            'count' => [fn ($queue) => $queue->list(-1), 'count must not be negative'],
            'timeout' => [fn ($queue) => $queue->consume(fn () => null, timeout: 0.0), 'timeout must be greater than 0'],
            'tries' => [fn ($queue) => $queue->consume(fn () => null, maxTries: 0), 'maxTries must be at least 1, not 0'],
            'backoff' => [fn ($queue) => $queue->consume(fn () => null, backoff: 0.0), 'backoff must be greater than 0'],
        ];
    }

    /** Consumes until there were this number of jobs, and records them. */
    private function consume(
        int $most,
        ?Closure $handler = null,
        string $list = 'q',
        float $timeout = 20.0,
        float $backoff = 0.1,
        ?Closure $stop = null,
    ): void {
        $record = function (Job $job) use ($handler): void {
            $this->jobs[] = [$job->value, $job->tries];
            $handler === null || $handler($job);
        };
        $ended = function () use ($most, $stop): bool {
            $stop === null || $stop();
            return count($this->jobs) === $most;
        };
        $this->locks->delayedQueue($list)->consume($record, $timeout, 5, $backoff, $ended);
    }
}
