// Threads that freed all they took leave nothing in the figures when they have ended: not what they
// had in stock, not what others freed for them.
// flags: -pthread
// promise: 22 25
#include "common.h"

static void *thread(void *arg)
{
    void *p[40];
    for (size_t i = 0; i < 40; i++)
        CHECK((p[i] = malloc(16 + i * 50 + (size_t)arg % 50)));
    for (size_t i = 1; i < 40; i++)
        free(p[i]);
    return p[0];
}

int main(void)
{
    free(join(spawn(thread, NULL)));
    struct mallinfo2 before = mallinfo2();
    for (size_t n = 0; n < 300; n++)
        free(join(spawn(thread, (void *)n)));
    struct mallinfo2 after = mallinfo2();
    announce_number("before", before.uordblks);
    announce_number("after", after.uordblks);
    CHECK(after.uordblks < before.uordblks + 20000);
    return 0;
}
