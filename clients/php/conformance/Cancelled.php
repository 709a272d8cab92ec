<?php

declare(strict_types=1);

namespace LockSo\Conformance;

/** The request was cancelled by another one. */
final class Cancelled extends \Exception
{
}
