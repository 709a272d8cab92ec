<?php

declare(strict_types=1);

namespace LockSo\Conformance;

use LockSo\Job;
use LockSo\Locks;

/** One consumer of a delayed queue, in a process of its own. */
final class Consumption
{
    private int $jobs = 0;
    private bool $cancelled = false;
    /** How often a handler that waits may go on. */
    private int $leaves = 0;

    public function __construct(private Channel $channel, private array $request, private Locks $locks)
    {
    }

    public function run(): array
    {
        $most = $this->request['jobs'] ?? null;
        $this->locks->delayedQueue($this->request['queue'])->consume(
            $this->handle(...),
            $this->request['timeout_ms'] / 1000,
            $this->request['max_tries'],
            $this->request['backoff_ms'] / 1000,
            function () use ($most): bool {
                $this->listen(0.0);
                return $this->cancelled || $this->jobs === $most;
            },
        );
        return $this->cancelled ? throw new Cancelled('it was cancelled') : [];
    }

    private function handle(Job $job): void
    {
        $this->jobs++;
        $event = ['event' => 'job', 'id' => $this->request['id'], 'value' => $job->value, 'tries' => $job->tries];
        $this->channel->send($event);
        if (in_array($job->value, $this->request['hold'] ?? [], true)) {
            while ($this->leaves === 0) {
                $this->listen(null);
            }
            $this->leaves--;
        }
        in_array($job->value, $this->request['fail'] ?? [], true) && throw new BodyError('the handler fails');
    }

    /** Receives what is there, and waits for it `$seconds` (null: no limit). */
    private function listen(?float $seconds): void
    {
        while (($message = $this->channel->receive($seconds)) !== null) {
            $message !== false || exit(1);
            $seconds = 0.0;
            match ($message['do']) {
                'cancel' => $this->cancelled = true,
                'leave' => $this->leaves++,
                'close' => $this->close($message),
            };
        }
    }

    private function close(array $message): void
    {
        $this->locks->close(($message['timeout_ms'] ?? 5000) / 1000);
        $this->channel->send(['closed' => true]);
    }
}
