<?php

declare(strict_types=1);

namespace LockSo\Conformance;

use Redis;
use RuntimeException;

/** Measures the time from a release to the next grant, and from RPUSH to BLPOP's reply with the same library. */
final class Handoff
{
    private const LIST = '{lock-so:handoff}:list';

    public function __construct(private array $to, private array $request)
    {
    }

    /** Microseconds of each round, of the lock and of the list, alternating. */
    public function measure(): array
    {
        $client = Client::connect($this->to);
        $lock = Client::lock(['main' => $client], 'main', $this->request['lock']);
        $waiter = Child::start($this->await(...));
        $us = ['lock_us' => [], 'blpop_us' => []];
        for ($round = 0; $round < $this->request['rounds']; $round++) {
            $hold = $lock->acquire();
            $waiter->channel->send(['for' => 'lock']);
            $this->seeBlocked($client, $lock->keys[0]);
            $began = hrtime(true);
            $hold->release();
            $us['lock_us'][] = ($this->received($waiter)['at'] - $began) / 1000;

            $waiter->channel->send(['for' => 'list']);
            $this->seeBlocked($client, self::LIST);
            $began = hrtime(true);
            $client->redis()->rPush(self::LIST, '1');
            $us['blpop_us'][] = ($this->received($waiter)['at'] - $began) / 1000;
        }
        $waiter->end();
        return $us;
    }

    /** The other process: waits for the lock or the list, as requested, and sends the time when it got it. */
    private function await(Channel $channel): void
    {
        $client = Client::connect($this->to);
        $client->redis()->setOption(Redis::OPT_READ_TIMEOUT, 60);
        $lock = Client::lock(['main' => $client], 'main', $this->request['lock']);
        while ($message = $channel->receive()) {
            if ($message['for'] === 'lock') {
                $hold = $lock->acquire();
                $at = hrtime(true);
                $hold->release();
            } else {
                $client->redis()->blPop([self::LIST], 50);
                $at = hrtime(true);
            }
            $channel->send(['at' => $at]);
        }
    }

    private function received(Child $waiter): array
    {
        return $waiter->channel->receive(30.0) ?: throw new RuntimeException('the waiter has received nothing');
    }

    /** Waits until a client is blocked on the server that has the key. */
    private function seeBlocked(Client $client, string $key): void
    {
        $redis = $client->redis();
        do {
            $info = $redis instanceof Redis ? $redis->info('clients') : $redis->info($key, 'clients');
        } while ((int) $info['blocked_clients'] === 0);
    }
}
