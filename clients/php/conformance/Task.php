<?php

declare(strict_types=1);

namespace LockSo\Conformance;

use LockSo\Hold;
use LockSo\Lock;
use LockSo\LockError;
use LockSo\Locks;
use LockSo\NoReplicas;
use LockSo\NotHeld;
use RedisException;
use RuntimeException;

/** One request that takes time, in a process of its own. */
final class Task
{
    /** Seconds between two checks of a hold. */
    private const CHECK = 0.02;

    /** @var list<Child> */
    private array $watchers = [];
    private bool $lossSent = false;
    /** Whether it was released. */
    private bool $released = false;
    /** What `keep` has thrown, apart from a loss: the next request is answered by it. */
    private ?LockError $failure = null;

    private string $on;
    private ?Client $client;
    /** The lock of the request: with the last variable of a RedLock what it owes is sent. */
    private ?Lock $lock = null;

    /** `$clients` are those of the parent process, whose connections are not used here. @param array<string, Client> $clients */
    public function __construct(private Channel $channel, private array $request, private array $to, private array $clients)
    {
        $this->on = $request['on'] ?? 'main';
        $this->client = $clients[$this->on] ?? null;
    }

    public function run(): void
    {
        $do = $this->request['do'];
        if ($do === 'acquire') {
            $this->hold();
            return;
        }
        $this->answer($this->request['id'], fn () => match ($do) {
            'within' => $this->within(),
            'reenter' => $this->reenter(),
            'latch_set', 'latch_down', 'latch_count', 'latch_wait' => $this->latch($do),
            'delay_push', 'delay_cancel', 'delay_list' => $this->queue($do),
            'consume' => (new Consumption($this->channel, $this->request, $this->client->locks))->run(),
            'locked' => ['locked' => $this->lock()->locked()],
            'info' => get_object_vars($this->lock()->info()),
            'force' => ['forced' => $this->lock()->force()],
            'count' => $this->count(),
            'storm' => $this->storm(),
            'crowd' => $this->crowd(),
            'short_lived' => $this->shortLived(),
            'handoff' => (new Handoff($this->to, $this->request))->measure(),
            default => throw new RuntimeException("no such request: $do"),
        });
    }

    private function answer(int $id, callable $work): array
    {
        $answer = Runner::answer($id, $work);
        $this->channel->send($answer);
        return $answer;
    }

    private function lock(?int $number = null): Lock
    {
        return $this->lock = Client::lock($this->clients, $this->on, $this->request['lock'], $number);
    }

    private function acquire(): Hold
    {
        return $this->lock()->acquire($this->wait());
    }

    private function wait(): ?float
    {
        $wait = $this->request['wait_ms'] ?? null;
        return $wait === null ? null : $wait / 1000;
    }

    /** Holds it until the release is requested, or the runner ends. */
    private function hold(): void
    {
        $hold = null;
        $answer = $this->answer($this->request['id'], function () use (&$hold): array {
            $hold = $this->acquire();
            $owners = $hold->holds === [] ? [] : ['owners' => array_column($hold->holds, 'owner')];
            return ['owner' => $hold->owner, 'token' => $hold->token] + $owners;
        });
        if ($hold === null) {
            // Then nothing was sent, and nothing is owed.
            $answer['error'] === 'bad_option' || $this->goOn();
            return;
        }
        $this->watch($hold);
        while (($message = $this->next($hold)) !== false && $message['do'] !== 'end') {
            [$failure, $this->failure] = [$this->failure, null];
            $work = $failure !== null && $message['do'] !== 'close' ? fn () => throw $failure : match ($message['do']) {
                'lost' => fn () => ['lost' => $this->lossSent || $hold?->isLost(query: false)],
                'renew' => function () use ($hold, $message): array {
                    $hold->renew(isset($message['lease_ms']) ? $message['lease_ms'] / 1000 : null);
                    return [];
                },
                'guard' => fn () => ['reply' => self::plain($hold->guard(...$message['command']))],
                default => null,
            };
            if ($work !== null) {
                $this->answer($message['id'], $work);
                continue;
            }
            $this->lossSent = $this->released = true;
            array_walk($this->watchers, fn (Child $watcher) => $watcher->end());
            $this->watchers = [];
            if ($message['do'] === 'close') {
                $this->clients[$message['on'] ?? 'main']->locks->close(($message['timeout_ms'] ?? 5000) / 1000);
                $this->channel->send(['closed' => true]);
                continue;
            }
            $this->answer($message['id'], function () use (&$hold, $message): array {
                $message['do'] === 'abandon' ? $hold = null : $hold->release();
                return [];
            });
        }
    }

    /** The rest of a program: what is owed to the server is sent before the next lock, and when the Locks are closed. */
    private function goOn(): void
    {
        $lock = $this->request['lock'];
        if ($lock['kind'] === 'redlock') {
            $this->lock = null;
            return;
        }
        $members = $lock['members'] ?? [['on' => $this->on, 'lock' => $lock]];
        for ($until = microtime(true) + 10.0; $members !== [] && microtime(true) < $until; usleep(100_000)) {
            $locks = $this->clients[$members[0]['on']]->locks;
            try {
                $locks->lock("{$members[0]['lock']['keys'][0]}-next")->run(fn () => null, 1.0);
                $locks->close();
                array_shift($members);
            } catch (LockError | RedisException) {
                continue;
            }
        }
    }

    private function crowd(): array
    {
        $children = [];
        // The tasks of a program share locks that have been connected.
        $this->lock()->locked();
        for ($i = 0; $i < $this->request['tasks']; $i++) {
            $children[] = Child::start(fn (Channel $channel) => $channel->send(Runner::answer(0, function () use ($i): array {
                $hold = $this->lock($this->request['own'] ?? true ? $i : null)->acquire();
                usleep((int) ($this->request['hold_ms'] * 1000));
                $hold->release();
                return ['done' => 1];
            })));
        }
        return self::sum($children);
    }

    private function shortLived(): array
    {
        for ($i = 0; $i < $this->request['times']; $i++) {
            $locks = Locks::on($this->client->redis());
            Client::make($locks, $this->request['lock'])->run(fn () => null);
            $this->request['close'] ?? false ? $locks->close() : null;
            unset($locks);
        }
        gc_collect_cycles();
        return [];
    }

    /** What the processes of the workers have done in all. @param list<Child> $children */
    private static function sum(array $children): array
    {
        $answers = [];
        foreach ($children as $child) {
            $answers[] = $child->channel->receive();
            $child->end();
        }
        foreach ($answers as $answer) {
            isset($answer['ok']) || throw new RuntimeException($answer['text'] ?? 'a worker died');
        }
        return ['done' => array_sum(array_column($answers, 'done'))];
    }

    /** If the loss is to be reported, starts a process for each key that only waits for it. */
    private function watch(Hold $hold): void
    {
        // A RedLock notices its loss when it is renewed.
        $isWatched = ($this->request['lock']['watch'] ?? false) && $this->request['lock']['kind'] !== 'redlock';
        foreach ($isWatched ? ($hold->holds ?: [$hold]) : [] as $one) {
            foreach ($one->keys as $key) {
                $this->watchers[] = Child::start(static function (Channel $channel) use ($one, $key): void {
                    $channel->send(['lost' => $one->awaitLoss(null, $key)]);
                });
            }
        }
    }

    /**
     * The next message, or false at the end. Meanwhile it renews and watches the hold, as the loop of a program would.
     */
    private function next(?Hold $hold): array|false
    {
        $lock = $this->request['lock'];
        $leases = array_map(fn (array $one) => $one['lease_ms'] ?? 30000, [$lock, ...array_column($lock['members'] ?? [], 'lock')]);
        $lease = min($leases) / 1000;
        while (($message = $this->channel->receive(min(self::CHECK, $lease / 10))) === null) {
            // The runner and its children are stopped together.
            Child::waitWhileTheParentIsStopped();
            if ($this->released) {
                continue;
            }
            try {
                ($lock['renew'] ?? true) && $hold->keep();
                $lost = $hold->isLost(query: false);
            } catch (NotHeld) {
                $lost = true;
            } catch (LockError $error) {
                $lost = false;
                // With too few replicas the lease is renewed on the master.
                $this->failure ??= $error instanceof NoReplicas ? null : $error;
            }
            $isWatched = ($lock['watch'] ?? false) && isset($this->request['as']) && !$this->lossSent;
            if ($isWatched && ($lost || $this->isReported())) {
                $this->lossSent = true;
                $this->channel->send(['event' => 'lost', 'as' => $this->request['as']]);
            }
        }
        return $message;
    }

    /** Whether one of the watchers has received the loss. */
    private function isReported(): bool
    {
        return array_filter($this->watchers, fn (Child $watcher) => (bool) $watcher->channel->receive(0.0)) !== [];
    }

    private function within(): array
    {
        $this->lock()->run(function (Hold $hold): void {
            $this->channel->send(['event' => 'inside', 'id' => $this->request['id']]);
            if ($this->request['until'] ?? false) {
                $this->next($hold);
                $this->failure === null || throw $this->failure;
            }
            if ($this->request['raise'] ?? false) {
                throw new BodyError('the body fails');
            }
        }, $this->wait());
        return [];
    }

    /** php-redis returns true for a status, which is OK. */
    private static function plain(mixed $reply): mixed
    {
        return $reply === true ? 'OK' : $reply;
    }

    /** Acquires it again and again inside itself. */
    private function reenter(): array
    {
        $lock = $this->lock();
        $holds = [];
        try {
            for ($i = 0; $i < $this->request['times']; $i++) {
                $holds[] = $lock->acquire($this->wait());
            }
            $owners = array_column($holds, 'owner');
            $this->channel->send(['event' => 'inside', 'id' => $this->request['id']]);
            $this->next($holds[0]);
        } finally {
            while ($hold = array_pop($holds)) {
                $hold->release();
            }
        }
        return ['owners' => $owners];
    }

    private function latch(string $do): array
    {
        $latch = $this->client->locks->latch($this->request['key']);
        $lease = $this->request['lease_ms'] ?? null;
        return match ($do) {
            'latch_set' => ['set' => $latch->set($this->request['count'], $lease === null ? null : $lease / 1000)],
            'latch_down' => ['left' => $latch->countDown($this->request['by'] ?? 1)],
            'latch_count' => ['count' => $latch->count()],
            'latch_wait' => ['open' => $latch->wait($this->wait())],
        };
    }

    private function queue(string $do): array
    {
        $queue = $this->client->locks->delayedQueue($this->request['queue']);
        ['value' => $value, 'item' => $item] = $this->request + ['value' => null, 'item' => null];
        return match ($do) {
            'delay_push' => ['item' => $queue->push($value, $this->request['delay_ms'] / 1000, $item)],
            'delay_cancel' => ['cancelled' => $queue->cancel($item)],
            'delay_list' => ['items' => array_map(fn ($one) => ['item' => $one['id'], 'value' => $one['value']], $queue->list())],
        };
    }

    private function count(): array
    {
        ['workers' => $workers, 'times' => $times] = $this->request;
        $children = [];
        for ($i = 0; $i < $workers; $i++) {
            $children[] = Child::start(fn (Channel $channel) => $channel->send(Runner::answer(0, fn () => $this->work($times))));
        }
        return self::sum($children);
    }

    /** One worker: increments the counter, which only the lock protects. */
    private function work(int $times): array
    {
        $client = Client::connect($this->to);
        $lock = $this->lock();
        $counter = $this->request['counter'];
        $done = 0;
        for ($i = 0; $i < $times; $i++) {
            $lock->run(function () use ($client, $counter, &$done): void {
                $value = (int) $client->redis()->get($counter);
                if ($this->request['lock']['kind'] !== 'read') {
                    $client->redis()->set($counter, (string) ($value + 1));
                }
                $done++;
            });
        }
        return ['done' => $done];
    }

    private function storm(): array
    {
        if ($this->request['kind'] !== 'timeout') {
            throw new RuntimeException('a process that waits can only be killed');
        }
        mt_srand($this->request['seed']);
        $lock = $this->lock();
        $acquired = 0;
        for ($i = 0; $i < $this->request['times']; $i++) {
            $hold = $lock->tryAcquire(mt_rand(1000, 3000) / 1e6);
            if ($hold !== null) {
                $acquired++;
                $hold->release();
            }
        }
        return ['acquired' => $acquired, 'given_up' => $this->request['times'] - $acquired];
    }
}
