<?php

declare(strict_types=1);

namespace LockSo;

use Closure;
use RedisException;

/**
 * A connection on which several servers can be waited for at the same time, which php-redis cannot do: it sends a command and
 * waits for the reply in one step. It does nothing by itself, but only in advance().
 *
 * @internal
 */
final class Wire
{
    /** By Clock: since when the oldest reply is awaited, or the connection. */
    public float $since;
    /** @var resource|null null when it is closed */
    public mixed $stream = null;
    private bool $isConnected = false;
    private bool $isSecure;
    private string $in = '';
    private string $out = '';
    /** @var list<Closure> what receives the next replies */
    private array $awaited = [];

    /** Begins to connect. The errors of all that goes wrong are received by those that await a reply. */
    public function __construct(public readonly string $address, array $context)
    {
        $this->since = Clock::now();
        $bare = preg_replace('~^\w+://~', '', $address);
        $this->isSecure = $bare === $address || str_starts_with($address, 'tcp://');
        $host = substr($bare, 0, (int) strrpos($bare, ':'));
        // php-redis has an IPv6 address without brackets.
        $tcp = str_contains($host, ':') && $host[0] !== '[' ? "[$host]" . substr($bare, strlen($host)) : $bare;
        $target = str_starts_with($bare, '/') ? "unix://$bare" : "tcp://$tcp";
        $options = stream_context_create(['ssl' => ($context['stream'] ?? []) + ['peer_name' => $host]]);
        $flags = STREAM_CLIENT_CONNECT | STREAM_CLIENT_ASYNC_CONNECT;
        $stream = @stream_socket_client($target, $code, $text, Connections::PATIENCE, $flags, $options);
        if ($stream !== false) {
            stream_set_blocking($stream, false);
            $this->stream = $stream;
        }
    }

    /** Sends a command; `$received` gets the reply: what Connection::send returns, or the error. */
    public function send(array $words, Closure $received): void
    {
        if ($this->stream === null) {
            $received(new RedisException("no connection to $this->address"));
            return;
        }
        $this->since = $this->awaited === [] ? Clock::now() : $this->since;
        $this->awaited[] = $received;
        $this->out .= '*' . count($words) . "\r\n";
        foreach ($words as $word) {
            $this->out .= '$' . strlen((string) $word) . "\r\n$word\r\n";
        }
        $this->isConnected && $this->write();
    }

    public function isAwaited(): bool
    {
        return $this->awaited !== [];
    }

    /** Whether it waits until it can write, and not only for replies. */
    public function isWriting(): bool
    {
        return !$this->isConnected || $this->out !== '' && $this->isSecure;
    }

    /** Does what is possible without waiting; to be called when the stream is ready. */
    public function advance(): void
    {
        if (!$this->isConnected && stream_socket_get_name($this->stream, true) === false) {
            $this->fail("cannot connect to $this->address");
            return;
        }
        $this->isConnected = true;
        if (!$this->isSecure) {
            $done = @stream_socket_enable_crypto($this->stream, true, STREAM_CRYPTO_METHOD_TLS_CLIENT);
            if ($done !== true) {
                $done === 0 || $this->fail(error_get_last()['message'] ?? "no TLS with $this->address");
                return;
            }
            $this->isSecure = true;
        }
        $this->write();
        $this->read();
    }

    /** Closes it; those that await a reply receive an error. */
    public function fail(string $text): void
    {
        [$stream, $this->stream] = [$this->stream, null];
        $stream === null || fclose($stream);
        [$awaited, $this->awaited] = [$this->awaited, []];
        foreach ($awaited as $received) {
            $received(new RedisException($text));
        }
    }

    private function write(): void
    {
        if ($this->stream !== null && $this->out !== '' && $this->isSecure) {
            $written = @fwrite($this->stream, $this->out);
            $written === false ? $this->fail("the connection to $this->address is lost") : $this->out = substr($this->out, $written);
        }
    }

    private function read(): void
    {
        while ($this->stream !== null && ($data = @fread($this->stream, 65536)) !== '' && $data !== false) {
            $this->in .= $data;
        }
        for ($at = 0; $this->awaited !== [] && ($reply = $this->parse($at)) !== null; $at = 0) {
            $this->in = substr($this->in, $at);
            $received = array_shift($this->awaited);
            $this->since = Clock::now();
            $received($reply[0]);
        }
        if ($this->stream !== null && feof($this->stream)) {
            $this->fail("the connection to $this->address is lost");
        }
    }

    /** The reply at `$at`, in an array; null if it is not complete. */
    private function parse(int &$at): ?array
    {
        $end = strpos($this->in, "\r\n", $at);
        if ($end === false) {
            return null;
        }
        $type = $this->in[$at];
        $line = substr($this->in, $at + 1, $end - $at - 1);
        $at = $end + 2;
        switch ($type) {
            case '+':
                return [true];
            case '-':
                return [LockError::of($line, $this->address)];
            case ':':
                return [(int) $line];
            case '$':
                $text = $line === '-1' ? null : substr($this->in, $at, (int) $line);
                $at += $text === null ? 0 : (int) $line + 2;
                return $at > strlen($this->in) ? null : [$text];
            default:
                $items = $line === '-1' ? null : [];
                for ($left = (int) $line; $left > 0; $left--) {
                    $item = $this->parse($at);
                    if ($item === null) {
                        return null;
                    }
                    $items[] = $item[0];
                }
                return [$items];
        }
    }
}
