// class: 33 Execute the content of a block
// sizes: 100 1000 200000
// toft: caught SIGSEGV
// secure: caught SIGSEGV
#include "corpus.h"

static unsigned char *p;
static int came_back;

static void nothing(void)
{
}

static void prepare(void)
{
    p = take(size);
#if defined(__x86_64__)
    memcpy(p, "\xC3", 1);
#elif defined(__aarch64__)
    memcpy(p, "\xC0\x03\x5F\xD6", 4);
    __builtin___clear_cache((char *)p, (char *)p + 4);
#else
    _exit(NO_SUCH_CALL);
#endif
}

static void fault(void)
{
    ((void (*)(void))launder(p))();
    came_back = 1;
}

static void correct(void)
{
    ((void (*)(void))launder((void *)nothing))();
}

static enum verdict outcome(void)
{
    give(p);
    return came_back ? MISSED : PREVENTED;
}
