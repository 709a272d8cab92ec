<?php

declare(strict_types=1);

namespace LockSo\Tests;

/** The examples of README.md do what they seem to. */
final class ReadmeTest extends LocksTestCase
{
    /** @return array<string, array{string}> all that is marked php, by its first line */
    public function examples(): array
    {
        preg_match_all('/^```php\n(.*?)^```/ms', file_get_contents(__DIR__ . '/../README.md'), $found);
        return array_combine(array_map(fn ($text) => strtok($text, "\n"), $found[1]), array_map(fn ($text) => [$text], $found[1]));
    }

    /** @dataProvider examples */
    public function testRuns(string $example): void
    {
        $first = current($this->examples())[0];
        $autoload = var_export(getenv('LOCK_SO_AUTOLOAD'), true);
        $text = "<?php error_reporting(E_ALL); require $autoload;\n" . ($example === $first ? '' : $first) . $example;
        $file = self::$server->folder . '/example.php';
        file_put_contents($file, str_replace('6379', (string) self::$server->port, $text, $replaced));
        self::assertSame(1, $replaced);
        exec(PHP_BINARY . " $file 2>&1", $output, $status);
        self::assertSame(0, $status, implode("\n", $output));
        self::assertStringNotContainsString('Warning', implode("\n", $output));
        self::assertSame([], preg_grep('/^lock:token:/', $this->redis->keys('*'), PREG_GREP_INVERT), 'nothing is held');
    }

    public function testThereAreExamples(): void
    {
        self::assertCount(5, $this->examples());
    }

    /** What is not run, since it needs servers that are not here, is PHP at least. */
    public function testTheRestCompiles(): void
    {
        preg_match('/^```php no-run\n(.*?)^```/ms', file_get_contents(__DIR__ . '/../README.md'), $found);
        $file = self::$server->folder . '/example.php';
        file_put_contents($file, "<?php\n" . $found[1]);
        exec(PHP_BINARY . " -l $file 2>&1", $output, $status);
        self::assertSame(0, $status, implode("\n", $output));
    }
}
