#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
    void *inherited = malloc(3000);
    int child = fork();
    if (child == 0) { free(inherited); for (int i = 0; i < 7; i++) malloc(4321); _exit(0); }
    waitpid(child, 0, 0);
    free(inherited);
    return 0;
}
