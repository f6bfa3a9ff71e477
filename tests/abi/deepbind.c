// A library that is opened with RTLD_DEEPBIND has its own symbols first, and the process's malloc
// all the same. The loader sees who called: its run path, its namespace; and what it says of a
// failure is what it says without Toft.
// flags: -pthread -rdynamic
// aux: deep.c
// aux: deep_opener.c
// libs: -ldl
// run: first
// run: threads
#include <stdbool.h>
#include "deepbind.h"

static pthread_barrier_t all_there;

/* The first calls of all, at the same time. */
static void *at_once(void *argument)
{
    pthread_barrier_wait(&all_there);
    for (int i = 0; i < 200; i++) {
        void *library = opened("deep", RTLD_NOW | RTLD_DEEPBIND);
        CHECK(library);
        void *(*take)(void) = (void *(*)(void))dlsym(library, "deep_which");
        CHECK(take);
        CHECK(dlclose(library) == 0);
    }
    return argument;
}

static void search_paths(void)
{
    void *(*open_there)(const char *, int) =
        (void *(*)(const char *, int))dlsym(opened("deep_opener", RTLD_NOW), "open_from_here");
    CHECK(open_there);
    char name[256];
    snprintf(name, sizeof name, "%s-deep.so", getenv("TEST_NAME"));
    /* The library's run path leads there, the program's does not. */
    for (int mode = RTLD_NOW; mode <= (RTLD_NOW | RTLD_DEEPBIND); mode += RTLD_DEEPBIND) {
        CHECK(!dlopen(name, mode));
        const char *why = dlerror();
        CHECK(why && strstr(why, name) && strstr(why, "cannot open shared object file"));
        CHECK(!dlerror());
        void *library = open_there(name, mode);
        CHECK(library && !dlerror());
        CHECK(dlclose(library) == 0);
    }
}

static void failures(void)
{
    char said[2][300];
    int errors[2];
    for (int deep = 0; deep < 2; deep++) {
        errno = 0;
        CHECK(!dlopen("/nowhere/at/all.so", RTLD_NOW | (deep ? RTLD_DEEPBIND : 0)));
        errors[deep] = errno;
        const char *why = dlerror();
        CHECK(why);
        snprintf(said[deep], sizeof said[deep], "%s", why);
        CHECK(!dlopen("libm.so.6", deep ? RTLD_DEEPBIND : 0) && dlerror());
    }
    CHECK(strcmp(said[0], said[1]) == 0 && errors[0] == errors[1]);
    errno = E2BIG;
    void *library = opened("deep", RTLD_NOW | RTLD_DEEPBIND | RTLD_NOLOAD);
    CHECK(library && errno == E2BIG && dlclose(library) == 0);
}

/* A separate namespace has its own C library: what comes from there is freed there. */
static void namespaces(void)
{
    void *library = dlmopen(LM_ID_NEWLM, "libc.so.6", RTLD_NOW);
    CHECK(library);
    char *(*duplicate)(const char *) = (char *(*)(const char *))dlsym(library, "strdup");
    void (*release)(void *) = (void (*)(void *))dlsym(library, "free");
    CHECK(duplicate && release && release != free);
    char *there = duplicate("there");
    CHECK(there && strcmp(there, "there") == 0);
    release(there);
    CHECK(dlclose(library) == 0);
    char path[4096];
    snprintf(path, sizeof path, "%s/%s-deep.so", getenv("AUX_DIR"), getenv("TEST_NAME"));
    void *base = dlmopen(LM_ID_BASE, path, RTLD_NOW | RTLD_DEEPBIND);
    cross(base, true);
    CHECK(dlclose(base) == 0);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    if (strcmp(argv[1], "threads") == 0) {
        pthread_t threads[8];
        pthread_barrier_init(&all_there, NULL, 8);
        for (int i = 0; i < 8; i++)
            CHECK(pthread_create(&threads[i], NULL, at_once, NULL) == 0);
        for (int i = 0; i < 8; i++)
            CHECK(pthread_join(threads[i], NULL) == 0);
        cross(opened("deep", RTLD_NOW | RTLD_DEEPBIND), true);
        return 0;
    }
    CHECK(dlopen(NULL, RTLD_NOW));
    void *shallow = opened("deep", RTLD_NOW);
    cross(shallow, false);
    CHECK(dlclose(shallow) == 0);
    for (int i = 0; i < 50; i++) {
        void *library = opened("deep", (i & 1 ? RTLD_LAZY : RTLD_NOW) | RTLD_DEEPBIND);
        cross(library, true);
        if (i == 49)
            failures();
        CHECK(dlclose(library) == 0);
    }
    search_paths();
    namespaces();
    return 0;
}
