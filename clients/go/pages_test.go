package lockso

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// normalized removes the indentation of code, and what a test has instead of the user's server and program.
func normalized(code string) string {
	code = regexp.MustCompile(`(?m)^.*/internal/servertest"\n|^\s+`).ReplaceAllString(code, "")
	return strings.NewReplacer("servertest.Address", `"localhost:6379"`, "package goredis_test", "package main").Replace(code)
}

// Each example on the pages is part of an example that is run.
func TestPages(t *testing.T) {
	var examples string
	files, _ := filepath.Glob("*/*page_test.go")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		examples += normalized(string(text))
	}
	for page, least := range map[string]int{"README.md": 3, "../../docs/clients/go.md": 5} {
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
