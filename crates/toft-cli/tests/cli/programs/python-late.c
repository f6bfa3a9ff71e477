// Loads the libpython that its first argument names, and runs the Python program that its second
// argument names.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int main(int count, char **arguments) {
    if (count != 3) return 2;
    // The program has samples before it has an interpreter.
    for (int i = 0; i < 100; i++)
        if (!malloc(1000)) return 3;
    void *library = dlopen(arguments[1], RTLD_NOW | RTLD_GLOBAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 4;
    }
    void (*start)(int) = (void (*)(int))dlsym(library, "Py_InitializeEx");
    int (*run)(FILE *, const char *) = (int (*)(FILE *, const char *))dlsym(library, "PyRun_SimpleFile");
    start(0);
    return run(fopen(arguments[2], "r"), arguments[2]);
}
