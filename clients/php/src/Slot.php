<?php

declare(strict_types=1);

namespace LockSo;

/** Computes the slot of a key, which php-redis does not expose. @internal */
final class Slot
{
    /** The key's hash tag, which alone decides the slot; null if it has none. */
    public static function tag(string $key): ?string
    {
        $open = strpos($key, '{');
        $close = $open === false ? false : strpos($key, '}', $open);
        return $close !== false && $close > $open + 1 ? substr($key, $open + 1, $close - $open - 1) : null;
    }

    /** The key's slot, 0 to 16383: CRC-16/XMODEM of the hash tag, if it has one. */
    public static function of(string $key): int
    {
        $crc = 0;
        foreach (unpack('C*', self::tag($key) ?? $key) as $byte) {
            $crc ^= $byte << 8;
            for ($bit = 0; $bit < 8; $bit++) {
                $crc = ($crc & 0x8000) !== 0 ? ($crc << 1) ^ 0x1021 : $crc << 1;
            }
            $crc &= 0xFFFF;
        }
        return $crc % 16384;
    }
}
