<?php

declare(strict_types=1);

namespace LockSo;

/** The kinds of locks, as texts name them. @internal */
enum Kind: string
{
    case Lock = 'lock';
    case Fair = 'fair lock';
    case Read = 'read lock';
    case Write = 'write lock';
    case Multi = 'multi-key lock';
    case Semaphore = 'semaphore';

    /** The kind that is one key of a multi-key lock, with this mode. */
    public static function single(?string $mode): self
    {
        return match ($mode) {
            null => self::Lock,
            'READ' => self::Read,
            'WRITE' => self::Write,
        };
    }

    /** The command that acquires one. */
    public function command(): string
    {
        return match ($this) {
            self::Lock => 'LOCK.ACQUIRE',
            self::Fair => 'LOCK.FAIR',
            self::Read => 'LOCK.RWREAD',
            self::Write => 'LOCK.RWWRITE',
            self::Multi => 'LOCK.MACQUIRE',
            self::Semaphore => 'LOCK.SEMAPHORE',
        };
    }
}
