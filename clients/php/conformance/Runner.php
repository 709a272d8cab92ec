<?php

declare(strict_types=1);

namespace LockSo\Conformance;

use InvalidArgumentException;
use LockSo\Closed;
use LockSo\Deadlock;
use LockSo\LockError;
use LockSo\ModuleMissing;
use LockSo\NoReplicas;
use LockSo\NotAcquired;
use LockSo\NotHeld;
use RedisClusterException;
use RedisException;
use Throwable;

/** Answers the driver's requests. Each request that takes time, and each hold, has a process of its own. */
final class Runner
{
    private Channel $driver;
    /** @var array<string, array> where to connect, by the client's name */
    private array $to = [];
    /** @var array<string, Client> */
    private array $clients = [];
    /** @var array<string, Child> by the hold's name, or the request's id */
    private array $children = [];
    /** @var array<string, Child> by the name of the request */
    private array $consumers = [];

    public function __construct()
    {
        $this->driver = new Channel(STDIN, STDOUT);
    }

    /** Serves until the driver sends quit or closes the stream. */
    public function serve(): void
    {
        do {
            $readable = ['driver' => STDIN] + array_map(fn (Child $child) => $child->channel->in, $this->children);
            $none = [];
            stream_select($readable, $none, $none, null);
            $continues = true;
            foreach (array_keys($readable) as $who) {
                $who === 'driver' ? $continues = $this->serveOne() : $this->pass((string) $who);
            }
        } while ($continues);
        array_walk($this->children, fn (Child $child) => $child->end());
    }

    /** The answer to the request `$id`: the result of `$work`, or its error. */
    public static function answer(int $id, callable $work): array
    {
        try {
            return ['id' => $id, 'ok' => true] + $work();
        } catch (Throwable $error) {
            $code = self::code($error);
            return ['id' => $id, 'error' => $code, 'text' => ($code === 'other' ? $error::class . ': ' : '') . $error->getMessage()];
        }
    }

    private static function code(Throwable $error): string
    {
        return match (true) {
            $error instanceof NotAcquired => 'not_acquired',
            $error instanceof NotHeld => 'not_held',
            $error instanceof Deadlock => 'deadlock',
            $error instanceof NoReplicas => 'no_replicas',
            $error instanceof Closed => 'closed',
            $error instanceof ModuleMissing => 'module_missing',
            $error instanceof LockError => 'refused',
            $error instanceof RedisException, $error instanceof RedisClusterException => 'connection',
            $error instanceof BodyError => 'body',
            $error instanceof BadOption, $error instanceof InvalidArgumentException => 'bad_option',
            $error instanceof WrongClient => 'wrong_client',
            $error instanceof Cancelled => 'cancelled',
            default => 'other',
        };
    }

    /** Receives one request from the driver; false after the last one. */
    private function serveOne(): bool
    {
        $request = $this->driver->receive();
        if ($request === false) {
            return false;
        }
        ['id' => $id, 'do' => $do] = $request;
        match ($do) {
            'connect' => $this->driver->send(self::answer($id, fn () => $this->connect($request))),
            'ping' => $this->driver->send(self::answer($id, fn () => $this->ping($request))),
            'cancel' => $this->cancel($request),
            'close' => $this->driver->send(self::answer($id, fn () => $this->close($request))),
            'release', 'lost', 'abandon', 'renew', 'guard' => $this->forward("as:{$request['as']}", $request),
            'leave' => $this->forward("id:{$request['of']}", $request),
            'acquire' => $this->start("as:{$request['as']}", $request),
            'consume' => $this->consume($request),
            'quit' => $this->driver->send(['id' => $id, 'ok' => true]),
            default => $this->start("id:$id", $request),
        };
        return $do !== 'quit';
    }

    /** Its messages are found by its id, and by its name, by which it is cancelled. */
    private function consume(array $request): void
    {
        $this->start("id:{$request['id']}", $request);
        $this->consumers[$request['as']] = $this->children["id:{$request['id']}"];
    }

    private function cancel(array $request): void
    {
        $consumer = $this->consumers[$request['as']] ?? null;
        $consumer?->channel->send($request);
        $text = 'a process that waits can only be killed';
        $this->driver->send(['id' => $request['id']] + ($consumer === null ? ['error' => 'other', 'text' => $text] : ['ok' => true]));
    }

    private function connect(array $request): array
    {
        $name = $request['as'] ?? 'main';
        $settings = array_intersect_key($request, ['max_block_ms' => 0, 'connect_timeout_ms' => 0, 'wrong' => 0]);
        $this->to[$name] = $request['to'] + $settings;
        $this->clients[$name] = Client::connect($this->to[$name]);
        return [];
    }

    /** Each hold has a process of its own, in which its Locks are closed too. */
    private function close(array $request): array
    {
        foreach ($this->children as $name => $child) {
            if (str_starts_with($name, 'as:') || in_array($child, $this->consumers, true)) {
                $child->channel->send($request);
                while (($message = $child->channel->receive(10.0)) && !isset($message['closed'])) {
                    $this->driver->send($message);
                }
            }
        }
        $this->clients[$request['on'] ?? 'main']->locks->close();
        return [];
    }

    private function ping(array $request): array
    {
        return ['pong' => $this->clients[$request['on'] ?? 'main']->ping()];
    }

    private function start(string $name, array $request): void
    {
        $to = $request['to'] ?? $this->to[$request['on'] ?? 'main'] ?? [];
        $clients = $this->clients;
        if (isset($this->children[$name])) {
            // Its hold is forgotten. It may still give up what it could not in time.
            $this->children["before:{$request['id']}"] = $this->children[$name];
            $this->children[$name]->channel->send(['do' => 'end']);
        }
        $this->children[$name] = Child::start(static function (Channel $channel) use ($request, $to, $clients): void {
            $task = new Task($channel, $request, $to, $clients);
            $task->run();
        });
    }

    private function forward(string $name, array $request): void
    {
        $child = $this->children[$name] ?? null;
        $child === null
            ? $this->driver->send(['id' => $request['id'], 'error' => 'other', 'text' => "no such hold: $name"])
            : $child->channel->send($request);
        if ($request['do'] === 'leave') {
            $this->driver->send(['id' => $request['id'], 'ok' => true]);
        }
    }

    /** Forwards a child's message to the driver. */
    private function pass(string $name): void
    {
        $message = $this->children[$name]->channel->receive();
        if ($message === false) {
            $this->children[$name]->end();
            unset($this->children[$name]);
        } else {
            $this->driver->send($message);
        }
    }
}
