<?php

declare(strict_types=1);

namespace LockSo\Conformance;

/** JSON in both directions, one object per line. */
final class Channel
{
    /** @param resource $in @param resource $out */
    public function __construct(public readonly mixed $in, private mixed $out)
    {
    }

    public function send(array $message): void
    {
        fwrite($this->out, json_encode($message, JSON_THROW_ON_ERROR | JSON_INVALID_UTF8_SUBSTITUTE) . "\n");
        fflush($this->out);
    }

    /** The next message; false at the end of the stream; null if none arrived within `$seconds` (null: no limit). */
    public function receive(?float $seconds = null): array|false|null
    {
        $in = [$this->in];
        $none = [];
        $whole = $seconds === null ? null : (int) $seconds;
        if (!stream_select($in, $none, $none, $whole, $seconds === null ? null : (int) (($seconds - $whole) * 1e6))) {
            return null;
        }
        $line = fgets($this->in);
        return $line === false ? false : json_decode($line, true, flags: JSON_THROW_ON_ERROR);
    }
}
