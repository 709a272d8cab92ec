<?php

declare(strict_types=1);

namespace LockSo\Tests;

use Closure;
use Redis;
use RedisException;
use RuntimeException;

/** A real server with the module, in a folder of its own, on a free port. */
final class Server
{
    private const TRIES = 10;

    public int $port;
    public string $folder;
    /** The port of the cluster bus. */
    private int $bus;
    /** @var resource */
    private mixed $process;

    /** `$options` are arguments of the server's command line. */
    public function __construct(string ...$options)
    {
        for ($tries = 1; ; $tries++) {
            $this->start($options);
            if ($this->listens($options)) {
                return;
            }
            $log = file_get_contents("{$this->folder}/log");
            $this->stop();
            // Another process may have taken the port.
            $tries < self::TRIES || throw new RuntimeException("the server has not started: $log");
        }
    }

    /** A port on which no process listens now. */
    public static function freePort(): int
    {
        $socket = stream_socket_server('tcp://127.0.0.1:0');
        $name = stream_socket_get_name($socket, false);
        fclose($socket);
        return (int) substr($name, strrpos($name, ':') + 1);
    }

    /**
     * A cluster of two masters, each with half of the slots.
     *
     * @return array{self, self}
     */
    public static function cluster(): array
    {
        $servers = [new self('--cluster-enabled', 'yes'), new self('--cluster-enabled', 'yes')];
        [$one, $two] = array_map(fn (self $server) => $server->client(), $servers);
        $one->rawCommand('CLUSTER', 'ADDSLOTSRANGE', 0, 8191);
        $two->rawCommand('CLUSTER', 'ADDSLOTSRANGE', 8192, 16383);
        $one->rawCommand('CLUSTER', 'MEET', '127.0.0.1', $servers[1]->port, $servers[1]->bus);
        $until = microtime(true) + 20;
        foreach ([$one, $two] as $redis) {
            for (; !str_contains($redis->rawCommand('CLUSTER', 'INFO'), 'cluster_state:ok'); usleep(10000)) {
                microtime(true) < $until || throw new RuntimeException('the cluster does not cover all slots');
            }
        }
        return $servers;
    }

    /** Begins to move an empty slot; the closure that it returns ends the move. */
    public static function move(int $slot, self $from, self $to): Closure
    {
        $id = $to->client()->rawCommand('CLUSTER', 'MYID');
        $to->client()->rawCommand('CLUSTER', 'SETSLOT', $slot, 'IMPORTING', $from->client()->rawCommand('CLUSTER', 'MYID'));
        $from->client()->rawCommand('CLUSTER', 'SETSLOT', $slot, 'MIGRATING', $id);
        return function () use ($slot, $from, $to, $id): void {
            foreach ([$to, $from] as $server) {
                $server->client()->rawCommand('CLUSTER', 'SETSLOT', $slot, 'NODE', $id);
            }
        };
    }

    /** A program's own client, as soon as the server accepts connections. */
    public function client(): Redis
    {
        for ($until = microtime(true) + 20; ; usleep(10000)) {
            try {
                $redis = new Redis();
                $redis->connect('127.0.0.1', $this->port, 2.0);
                return $redis;
            } catch (RedisException $trouble) {
                if (microtime(true) > $until) {
                    throw new RuntimeException(file_get_contents("{$this->folder}/log"), 0, $trouble);
                }
            }
        }
    }

    /** Sends the server's process a signal, unless it has ended: then its number may belong to another process. */
    public function signal(int $signal): void
    {
        $status = proc_get_status($this->process);
        $status['running'] && posix_kill($status['pid'], $signal);
    }

    /** Runs an example with this server's port in place of 6379. Returns its output and its status. */
    public function example(string $code): array
    {
        $autoload = var_export(getenv('LOCK_SO_AUTOLOAD'), true);
        $file = "{$this->folder}/example.php";
        $code = str_replace(['10.0.0.1', '6379', "'vendor/autoload.php'"], ['127.0.0.1', (string) $this->port, $autoload], $code);
        file_put_contents($file, "<?php error_reporting(E_ALL); require $autoload;\n$code");
        exec((getenv('PHP') ?: PHP_BINARY) . " $file 2>&1", $output, $status);
        return [implode("\n", $output), $status];
    }

    public function stop(): void
    {
        $this->signal(SIGKILL);
        proc_close($this->process);
        array_map(unlink(...), glob("{$this->folder}/*") ?: []);
        rmdir($this->folder);
    }

    private function start(array $options): void
    {
        $this->folder = sys_get_temp_dir() . '/lock-so-' . bin2hex(random_bytes(6));
        mkdir($this->folder);
        [$this->port, $this->bus] = [self::freePort(), self::freePort()];
        $command = [
            getenv('SERVER') ?: 'redis-server', '--port', (string) $this->port, '--cluster-port', (string) $this->bus,
            '--bind', '127.0.0.1', '--save', '', '--dir', $this->folder, '--loadmodule', getenv('MODULE'), ...$options,
        ];
        $log = ['file', "{$this->folder}/log", 'a'];
        $this->process = proc_open($command, [['file', '/dev/null', 'r'], $log, $log], $pipes);
    }

    /**
     * Whether this server replies, so that all its ports are its own. It ends if another process has one of the ports.
     */
    private function listens(array $options): bool
    {
        $password = array_search('--requirepass', $options, true);
        for ($until = microtime(true) + 20; microtime(true) < $until; usleep(10000)) {
            $status = proc_get_status($this->process);
            if (!$status['running']) {
                return false;
            }
            try {
                $redis = new Redis();
                $redis->connect('127.0.0.1', $this->port, 2.0, null, 0, 2.0);
                $password === false || $redis->auth($options[$password + 1]);
                if ((int) (@$redis->info('server')['process_id'] ?? 0) === $status['pid']) {
                    return true;
                }
            } catch (RedisException) {
                // Not yet, or another process replied.
            }
        }
        return false;
    }
}
