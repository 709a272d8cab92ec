package so.lock;

import java.io.IOException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import javax.tools.ToolProvider;

/** The programs on a page of the documentation: compiles them, and runs them with the test's server. */
public final class Examples {
    private static final Pattern PROGRAM = Pattern.compile("(?s)```java\n(.*?)```");

    private Examples() {}

    /** Runs the programs that contain a word, with the server on that port. Returns how many there were. */
    public static int run(Path page, String word, int port) throws Exception {
        List<String> programs = PROGRAM.matcher(Files.readString(page)).results()
                .map(found -> found.group(1))
                .filter(program -> program.contains(word))
                .toList();
        for (String program : programs) {
            run(program.replace("6379", Integer.toString(port)));
        }
        return programs.size();
    }

    private static void run(String program) throws Exception {
        Path folder = Files.createTempDirectory(Path.of(System.getProperty("lockso.folder")), "example-");
        Path source = Files.writeString(folder.resolve("Example.java"), source(program));
        int status = ToolProvider.getSystemJavaCompiler().run(null, null, null, "-Xlint:all,-try,-path", "-Werror", "-proc:none",
                "-d", folder.toString(), "-cp", System.getProperty("java.class.path"), source.toString());
        if (status != 0) {
            throw new IOException("it does not compile:\n" + program);
        }
        try (URLClassLoader loader = new URLClassLoader(new URL[] {folder.toUri().toURL()})) {
            loader.loadClass("Example").getMethod("run").invoke(null);
        }
    }

    private static String source(String program) {
        return lines(program, true) + "public class Example {\n"
                + "    static void work() {}\n"
                + "    public static void run() throws Exception {\n" + lines(program, false) + "    }\n}\n";
    }

    private static String lines(String program, boolean imports) {
        return program.lines()
                .filter(line -> line.startsWith("import ") == imports)
                .collect(Collectors.joining("\n", "", "\n"));
    }
}
