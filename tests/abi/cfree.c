// cfree, which glibc dropped and old programs still call, is free.
// libc: skip glibc dropped cfree in 2.26
// promise: 22
#include "common.h"

int main(void)
{
    void (*cfree)(void *) = (void (*)(void *))symbol("cfree");
    CHECK(cfree);
    cfree(NULL);
    size_t before = mallinfo2().uordblks;
    for (int i = 0; i < 100000; i++)
        cfree(malloc(1000));
    CHECK(mallinfo2().uordblks < before + 100000);
    return 0;
}
