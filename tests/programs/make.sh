# make -j over a generated tree: many short compilers at once.
# needs: make make
# needs: gcc gcc
mkdir src
for i in $(seq 40); do
    echo "int part_$i(int x) { return x * $i; }" >src/part_$i.c
done
{
    for i in $(seq 40); do echo "int part_$i(int);"; done
    echo '#include <stdio.h>'
    echo 'int main(void) { int s = 0;'
    for i in $(seq 40); do echo "s += part_$i($i);"; done
    echo 'printf("%d\n", s); return 0; }'
} >src/main.c
cat >Makefile <<'M'
SOURCES := $(wildcard src/*.c)
OBJECTS := $(SOURCES:src/%.c=build/%.o)
program: $(OBJECTS)
	@gcc -o $@ $^
build/%.o: src/%.c | build
	@gcc -O1 -c -o $@ $<
build:
	@mkdir build
M
make -j4 --output-sync >log
./program
touch src/part_7.c
make -j4 -n | grep -c gcc
