package cli

import (
	"bufio"
	"fmt"
	"strings"
)

// Ask puts a question on stderr and reads the answer; anything but y or yes, the end of the input included, is no.
func (e *Env) Ask(question string) bool {
	_, _ = fmt.Fprintf(e.ErrOut, "%s [y/N] ", question)
	line, err := bufio.NewReader(e.In).ReadString('\n')
	if err != nil {
		e.Note("")
	}
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes"
}
