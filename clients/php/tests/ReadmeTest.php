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

    public function testThereAreExamples(): void
    {
        self::assertCount(5, $this->examples());
    }

    /** The example that is not run, because it needs other servers, must at least compile. */
    public function testTheRestCompiles(): void
    {
        [$text] = self::marked('php no-run', self::README);
        self::assertSame(0, self::$server->example("return;\n$text")[1]);
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
