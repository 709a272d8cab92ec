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
    public readonly int $port;
    public readonly string $folder;
    /** @var resource */
    private mixed $process;

    /** `$options` are words of the server's command line. */
    public function __construct(string ...$options)
    {
        $this->folder = sys_get_temp_dir() . '/lock-so-' . bin2hex(random_bytes(6));
        mkdir($this->folder);
        $socket = stream_socket_server('tcp://127.0.0.1:0');
        $name = stream_socket_get_name($socket, false);
        fclose($socket);
        $this->port = (int) substr($name, strrpos($name, ':') + 1);
        $command = [
            getenv('SERVER') ?: 'redis-server', '--port', (string) $this->port, '--save', '', '--dir', $this->folder,
            '--loadmodule', getenv('MODULE'), ...$options,
        ];
        $log = ['file', "{$this->folder}/log", 'a'];
        $this->process = proc_open($command, [['file', '/dev/null', 'r'], $log, $log], $pipes);
        if (!in_array('--requirepass', $options, true) && !in_array('--tls-port', $options, true)) {
            $this->client();
        }
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
        $one->rawCommand('CLUSTER', 'MEET', '127.0.0.1', $servers[1]->port);
        $until = microtime(true) + 20;
        foreach ([$one, $two] as $redis) {
            for (; !str_contains($redis->rawCommand('CLUSTER', 'INFO'), 'cluster_state:ok'); usleep(10000)) {
                microtime(true) < $until || throw new RuntimeException('the cluster does not come together');
            }
        }
        return $servers;
    }

    /** Begins to move a slot that holds nothing; what is answered ends that. */
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

    /** A program's own client, as soon as the server answers one. */
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

    /** Sends the server's process a signal. */
    public function signal(int $signal): void
    {
        posix_kill(proc_get_status($this->process)['pid'], $signal);
    }

    /** Runs an example, with this server in place of the port 6379; what it writes, and its status. */
    public function example(string $code): array
    {
        $autoload = var_export(getenv('LOCK_SO_AUTOLOAD'), true);
        $file = "{$this->folder}/example.php";
        $code = str_replace(['10.0.0.1', '6379'], ['127.0.0.1', (string) $this->port], $code);
        file_put_contents($file, "<?php error_reporting(E_ALL); require $autoload;\n$code");
        exec(PHP_BINARY . " $file 2>&1", $output, $status);
        return [implode("\n", $output), $status];
    }

    public function stop(): void
    {
        $this->signal(SIGKILL);
        proc_close($this->process);
        array_map(unlink(...), glob("{$this->folder}/*") ?: []);
        rmdir($this->folder);
    }
}
