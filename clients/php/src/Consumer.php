<?php

declare(strict_types=1);

namespace LockSo;

use Closure;
use RedisException;
use Throwable;

/**
 * The reliable consumer of a list. It moves each element to a second list, makes it pending again as its own timeout, the
 * claim, and only then removes it from there: so no death loses an element. The elements and the lists are those of the
 * packages of all languages.
 *
 * @internal
 */
final class Consumer
{
    /** Seconds: how long one command blocks at most, and the time between two looks at what was left behind. */
    private const LOOK = 1.0;
    /** How an element begins that was tried before. */
    private const TRIED = '/^lock-so:(\d+):/';
    /** Errors of a server that will accept the command later. */
    private const PASSING = ['OOM', 'MISCONF', 'NOREPLICAS', 'BUSY'];

    private string $taken;
    private string $failed;
    private Outage $outage;
    private float $began;
    /** By Clock. */
    private float $looked = -INF;
    /** @var array<string|int, int> how often each element was there at the last look */
    private array $seen = [];

    public function __construct(
        private Connections $connections,
        private string $list,
        private string $named,
        private Closure $handler,
        private float $timeout,
        private int $maxTries,
        private float $backoff,
    ) {
        $tagged = Slot::tag($list) === null ? '{' . $list . '}' : $list;
        $this->taken = "$tagged:taken";
        $this->failed = "$tagged:failed";
        $this->outage = new Outage($connections, $named, 'the consumer');
        $this->began = Clock::now();
    }

    public static function isTried(string $value): bool
    {
        return preg_match(self::TRIED, $value) === 1;
    }

    /** Takes one element, if there is one within a second, and does its work. */
    public function step(): void
    {
        try {
            $this->sweep();
            $element = $this->take();
            $this->outage->end();
            $element === null || $this->work($element);
        } catch (RedisException $error) {
            if (!$this->connections->connected && Clock::now() - $this->began >= $this->connections->connectTimeout) {
                throw $error;
            }
            $this->outage->failed($error);
        } catch (LockError $error) {
            $passes = $error instanceof Refused && $error->isTransient() || in_array($error->reason, self::PASSING, true);
            $passes || throw $error->about($this->named);
            // If it was a claim, the element will be found by a sweep.
            $this->warn("{$error->getMessage()}; the consumer goes on");
            Clock::sleep(min($this->backoff, self::LOOK));
        }
    }

    private function take(): ?string
    {
        $block = min($this->connections->maxBlock, self::LOOK);
        $words = ['BLMOVE', $this->list, $this->taken, 'LEFT', 'RIGHT', sprintf('%.3F', max(0.001, $block))];
        $until = Clock::now() + $block;
        $reply = $this->connections->within($until + Connections::PATIENCE, fn () => $this->connections->call(
            $this->list,
            fn () => [$words, $this->connections->patience($block + Connections::PATIENCE)],
            $until,
        ));
        // The null of a timeout may be that of an array, which php-redis returns as an empty one.
        return is_string($reply) ? $reply : null;
    }

    private function work(string $element): void
    {
        [$tries, $value] = self::parse($element);
        $claim = self::newClaim();
        $ends = Clock::now() + $this->timeout;
        if (!$this->claim($element, $claim, $this->timeout, $tries + 1, $value)) {
            return;
        }
        if ($tries >= $this->maxTries) {
            $this->ask(['RPUSH', $this->failed, $value]);
            $this->ask(['DELAY.CANCEL', $this->list, $claim]);
            $this->warn("a job has failed after $tries tries: it is in $this->failed");
            return;
        }
        try {
            ($this->handler)(new Job($value, $tries + 1));
        } catch (Throwable $error) {
            $this->warn('a job has failed: ' . $error::class . ": {$error->getMessage()}");
            // Otherwise it has been delivered again.
            Clock::now() >= $ends || $this->settle($this->pending($claim, $this->backoff * 2 ** $tries, $tries + 1, $value), $ends);
            return;
        }
        if ($this->settle(['DELAY.CANCEL', $this->list, $claim], $ends) === 0 && !$this->connections->unsure) {
            $this->warn("a job has taken longer than its timeout of $this->timeout s: it will run again");
        }
    }

    /**
     * What a consumer has left behind that died between BLMOVE and its claim, which is what was already there at the last
     * look, is delivered again. Its try was not begun.
     */
    private function sweep(): void
    {
        if (Clock::now() < $this->looked + self::LOOK) {
            return;
        }
        $there = array_count_values($this->ask(['LRANGE', $this->taken, 0, -1]));
        [$before, $this->seen, $this->looked] = [$this->seen, $there, Clock::now()];
        foreach ($there as $element => $times) {
            // PHP makes numbers of keys that look like them.
            [$tries, $value] = self::parse((string) $element);
            for ($left = min($times, $before[$element] ?? 0); $left > 0; $left--) {
                $this->claim((string) $element, self::newClaim(), 0.0, $tries, $value);
                $this->seen[$element]--;
            }
        }
    }

    /** Makes an element pending that was taken. False if another consumer has done so. */
    private function claim(string $element, string $claim, float $delay, int $tries, string $value): bool
    {
        $this->ask($this->pending($claim, $delay, $tries, $value));
        try {
            if ($this->connections->request($this->list, ['LREM', $this->taken, 1, $element], once: true) === 1) {
                return true;
            }
        } catch (RedisException $error) {
            // Sent again it could remove the same value of another consumer, which would then be lost.
            return $this->connections->unsure ?: throw $error;
        }
        $this->ask(['DELAY.CANCEL', $this->list, $claim]);
        return false;
    }

    private function pending(string $claim, float $delay, int $tries, string $value): array
    {
        return ['DELAY.PUSH', $this->list, $claim, (int) ceil($delay * 1000), "lock-so:$tries:$value"];
    }

    /** Sends a command that ends the claim, over outages until it has timed out. Null if there is no reply. */
    private function settle(array $words, float $ends): mixed
    {
        $until = max($ends, Clock::now());
        $patient = fn () => [$words, $this->connections->patience()];
        try {
            return $this->connections->within($until + Connections::PATIENCE, fn () => $this->connections->call(
                $this->list,
                $patient,
                $until,
                failed: $this->outage->failed(...),
            ));
        } catch (RedisException $error) {
            $this->warn("a job was not settled: it will run again ({$error->getMessage()})");
            return null;
        }
    }

    private function ask(array $words): mixed
    {
        $request = fn () => $this->connections->request($this->list, $words);
        // The first one, whose attempts to connect end in time.
        return $this->connections->connected ? $request() : $this->connections->within($this->began + $this->connections->connectTimeout, $request);
    }

    private function warn(string $text): void
    {
        error_log("$this->named: $text");
    }

    private static function newClaim(): string
    {
        return 'claim-' . bin2hex(random_bytes(8));
    }

    /** @return array{int, string} how often it was tried, and the value */
    private static function parse(string $element): array
    {
        if (preg_match(self::TRIED, $element, $found) !== 1) {
            return [0, $element];
        }
        // One more is still an integer.
        return [min((int) $found[1], PHP_INT_MAX - 1), substr($element, strlen($found[0]))];
    }
}
