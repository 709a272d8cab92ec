<?php

declare(strict_types=1);

namespace LockSo\Conformance;

/** The body's own error. */
final class BodyError extends \Exception
{
}
