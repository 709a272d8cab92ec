package lockso

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// normalized removes the indentation of code, and the address of its server.
func normalized(code string) string {
	code = regexp.MustCompile(`(?m)^\s+`).ReplaceAllString(code, "")
	return strings.ReplaceAll(code, "servertest.Address", `"localhost:6379"`)
}

// Each example on the pages is part of an example that is run.
func TestPages(t *testing.T) {
	var examples string
	files, _ := filepath.Glob("*/page_test.go")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		examples += normalized(string(text))
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
			if !strings.Contains(examples, normalized(code[1])) {
				t.Errorf("%s shows code that no example runs:\n%s", page, code[1])
			}
		}
	}
}
