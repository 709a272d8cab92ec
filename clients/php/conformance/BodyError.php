<?php

declare(strict_types=1);

namespace LockSo\Conformance;

/** The error that the body itself throws. */
final class BodyError extends \Exception
{
}
