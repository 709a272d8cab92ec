<?php

declare(strict_types=1);

namespace LockSo\Conformance;

/** The client of another kind was refused. */
final class WrongClient extends \Exception
{
}
