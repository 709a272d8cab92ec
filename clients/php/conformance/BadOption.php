<?php

declare(strict_types=1);

namespace LockSo\Conformance;

/** An option was refused. */
final class BadOption extends \Exception
{
}
