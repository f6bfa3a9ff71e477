#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
extern char **environ;
static void late(void) { malloc(77); }
int main(int count, char **words) {
    char *none[] = {"true", 0};
    const char *how = words[1], *path = "/bin/true";
    for (int i = 0; i < 10; i++) malloc(100 + i);
    if (!strcmp(how, "_exit")) _exit(0);
    if (!strcmp(how, "_Exit")) _Exit(0);
    if (!strcmp(how, "exit")) exit(0);
    if (!strcmp(how, "quick_exit")) { at_quick_exit(late); quick_exit(0); }
    if (!strcmp(how, "execve")) execve(path, none, environ);
    if (!strcmp(how, "execv")) execv(path, none);
    if (!strcmp(how, "execvp")) execvp("true", none);
    if (!strcmp(how, "execvpe")) execvpe("true", none, environ);
    if (!strcmp(how, "fexecve")) fexecve(open(path, O_RDONLY), none, environ);
    if (!strcmp(how, "execveat")) execveat(AT_FDCWD, path, none, environ, 0);
    char *many[] = {"/bin/sh", "-c", "test $# = 9", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
    #define MANY many[0], many[1], many[2], many[3], many[4], many[5], many[6], many[7], many[8], \
        many[9], many[10], many[11], many[12], (char *)0
    if (!strcmp(how, "execl")) execl("/bin/sh", MANY);
    if (!strcmp(how, "execlp")) execlp("sh", MANY);
    char *own[] = {"GIVEN=7", 0};
    if (!strcmp(how, "execle")) execle("/bin/sh", "sh", "-c", "test $GIVEN = 7", (char *)0, own);
    return 9;
}
