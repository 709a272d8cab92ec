<?php

declare(strict_types=1);

namespace LockSo\Tests;

/** Runs the examples of README.md and of docs/clients/php.md. */
final class ReadmeTest extends LocksTestCase
{
    private const README = __DIR__ . '/../README.md';
    private const PAGE = __DIR__ . '/../../../docs/clients/php.md';

    /**
     * @return array<string, array{string}> the blocks marked php in README.md, by their first line; the first one is
     * put before each
     */
    public function examples(): array
    {
        $found = self::marked('php', self::README);
        $examples = array_map(fn (string $text) => [$text === $found[0] ? $text : $found[0] . $text], $found);
        return array_combine(array_map(fn (string $text) => strtok($text, "\n"), $found), $examples);
    }

    /** @dataProvider examples */
    public function testRuns(string $example): void
    {
        $this->succeed($example);
    }

    /** In a project of its own, and without a registry. */
    public function testComposerInstallsIt(): void
    {
        [$install] = self::marked('sh', self::README);
        $folder = sys_get_temp_dir() . '/lock-so-' . bin2hex(random_bytes(4));
        mkdir($folder);
        file_put_contents("$folder/config.json", '{"repositories": {"packagist.org": false}}');
        $install = str_replace('path/to/clients/php', dirname(__DIR__), $install);
        exec("cd $folder && export COMPOSER_ALLOW_SUPERUSER=1 COMPOSER_HOME=$folder && set -e; $install 2>&1", $output, $status);
        $check = 'require "vendor/autoload.php"; exit(class_exists(LockSo\\Locks::class) && class_exists(LockSo\\NotHeld::class) ? 0 : 1);';
        exec("cd $folder && php -r " . escapeshellarg($check), $output, $found);
        exec('rm -r ' . escapeshellarg($folder));
        self::assertSame([0, 0], [$status, $found], implode("\n", $output));
    }

    public function testThereAreExamples(): void
    {
        self::assertCount(10, $this->examples());
    }

    /** The examples that are not run, because they need other servers, must at least compile. */
    public function testTheRestCompiles(): void
    {
        foreach (self::marked('php no-run', self::README) as $text) {
            self::assertSame(0, self::$server->example("return;\n$text")[1], $text);
        }
    }

    /** The examples of the page are one program. */
    public function testThePageRuns(): void
    {
        $output = $this->succeed(implode(self::marked('php', self::PAGE)));
        self::assertMatchesRegularExpression('/^working as \S+\nworking\nexclusive: me for \d+ ms, 0 wait$/', $output);
    }

    public function testThePagesExampleOfAClusterRuns(): void
    {
        [$code] = self::marked('php cluster', self::PAGE);
        [$one, $two] = Server::cluster();
        try {
            self::assertSame(['both', 0], $one->example($code));
            self::assertSame([[], []], [$one->client()->keys('*'), $two->client()->keys('*')], 'nothing is held');
        } finally {
            $one->stop();
            $two->stop();
        }
    }

    /** Runs the code, and returns its output. */
    private function succeed(string $code): string
    {
        [$output, $status] = self::$server->example($code);
        self::assertSame(0, $status, $output);
        self::assertStringNotContainsString('Warning', $output);
        self::assertSame([], preg_grep('/^lock:token:/', $this->redis->keys('*'), PREG_GREP_INVERT), 'nothing is held');
        return $output;
    }

    /** @return list<string> the blocks that are marked as `$as` in a file */
    private static function marked(string $as, string $file): array
    {
        preg_match_all("/^```$as\n(.*?)^```/ms", file_get_contents($file), $found);
        return $found[1];
    }
}
