# The Go tool is static: a preload is nothing to it, and it goes on as before.
# needs: go golang-go
# needs: readelf binutils
go version | cut -d' ' -f1-2
tool="$(go env GOROOT)/bin/go"
if readelf -lW "$tool" | grep -q INTERP; then echo dynamic; else echo static; fi
printf 'package main\nfunc  main( ) {\n  println( 1+2 )\n}\n' >t.go
gofmt t.go 2>/dev/null || "$(go env GOROOT)/bin/gofmt" t.go
