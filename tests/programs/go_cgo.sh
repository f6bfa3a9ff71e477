# A Go program that calls C is dynamic: its runtime looks for the auxiliary vector after the
# environment, in every scope.
# needs: go golang-go
# needs: gcc gcc
# timeout: 600
# One cache for all allocators: the standard library is compiled once, by the first one, libc.
export GOCACHE="$PWD/../../go-cache" GOPATH="$PWD/path" GOFLAGS=-mod=mod GOTOOLCHAIN=local CGO_ENABLED=1
cat >m.go <<'END'
package main

/*
#include <stdlib.h>
#include <string.h>
*/
import "C"
import (
	"fmt"
	"os"
	"os/exec"
	"unsafe"
)

func main() {
	sum := 0
	for i := 1; i <= 1000; i++ {
		p := C.malloc(C.size_t(i))
		C.memset(p, 1, C.size_t(i))
		sum += int(C.strnlen((*C.char)(p), C.size_t(i)))
		C.free(p)
	}
	s := C.CString("text")
	defer C.free(unsafe.Pointer(s))
	fmt.Println(sum, C.GoString(s), os.Getpagesize(), os.Getenv("OTHER"))
	if len(os.Args) > 1 {
		child, err := exec.Command("./m").Output()
		fmt.Print(string(child), err, "\n")
	}
}
END
go mod init m 2>/dev/null
go build -o m m.go
export OTHER=kept
./m
TOFT_SCOPE=program ./m child
TOFT_SCOPE=children ./m child
