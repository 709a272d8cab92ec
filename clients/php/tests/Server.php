<?php

declare(strict_types=1);

namespace LockSo\Tests;

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

    public function stop(): void
    {
        $this->signal(SIGKILL);
        proc_close($this->process);
        array_map(unlink(...), glob("{$this->folder}/*") ?: []);
        rmdir($this->folder);
    }
}
