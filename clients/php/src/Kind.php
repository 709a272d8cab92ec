<?php

declare(strict_types=1);

namespace LockSo;

/** The kinds of locks, by the command that takes one. */
enum Kind: string
{
    case Lock = 'LOCK.ACQUIRE';
    case Fair = 'LOCK.FAIR';
    case Read = 'LOCK.RWREAD';
    case Write = 'LOCK.RWWRITE';
    case Multi = 'LOCK.MACQUIRE';
    case Semaphore = 'LOCK.SEMAPHORE';
}
