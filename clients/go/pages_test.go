package lockso

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// plainly leaves out how code is indented, and at which address it finds its server.
func plainly(code string) string {
	code = regexp.MustCompile(`(?m)^\s+`).ReplaceAllString(code, "")
	return strings.ReplaceAll(code, "servertest.Address", `"localhost:6379"`)
}

// What the pages show is run: it is part of the examples.
func TestPages(t *testing.T) {
	var examples string
	files, _ := filepath.Glob("*/page_test.go")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		examples += plainly(string(text))
	}
	for page, least := range map[string]int{"README.md": 1, "../../docs/clients/go.md": 5} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		shown := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(text), -1)
		if len(shown) < least {
			t.Errorf("%s shows %d examples", page, len(shown))
		}
		for _, code := range shown {
			if !strings.Contains(examples, plainly(code[1])) {
				t.Errorf("%s shows what no example runs:\n%s", page, code[1])
			}
		}
	}
}
