<?php

declare(strict_types=1);

namespace LockSo;

/** The kinds of locks, with the command that acquires one. */
enum Kind: string
{
    case Lock = 'LOCK.ACQUIRE';
    case Fair = 'LOCK.FAIR';
    case Read = 'LOCK.RWREAD';
    case Write = 'LOCK.RWWRITE';
    case Multi = 'LOCK.MACQUIRE';
    case Semaphore = 'LOCK.SEMAPHORE';

    /** How texts name it. */
    public function name(): string
    {
        return match ($this) {
            self::Lock => 'lock',
            self::Fair => 'fair lock',
            self::Read => 'read lock',
            self::Write => 'write lock',
            self::Multi => 'multi-key lock',
            self::Semaphore => 'semaphore',
        };
    }
}
