/* Threads that allocate until memory runs out, by every function, and then go on. */
#include "common.h"

struct node {
    struct node *next;
    size_t size;
};

static pthread_barrier_t limit_barrier;

static struct node *exhaust(size_t size)
{
    struct node *list = NULL;
    for (size_t i = 0;; i++) {
        struct node *p;
        errno = 0;
        switch (i % 5) {
        case 0: p = malloc(size); break;
        case 1: p = calloc(1, size); break;
        case 2: p = realloc(NULL, size); break;
        case 3: p = memalign(64, size); break;
        default: {
            void *out = (void *)0x9;
            int rc = posix_memalign(&out, 128, size);
            CHECK(rc == 0 || (rc == ENOMEM && out == (void *)0x9));
            p = rc ? NULL : out;
            errno = rc;
        }
        }
        if (!p) {
            CHECK(errno == ENOMEM);
            return list;
        }
        p->next = list;
        p->size = size;
        memset(p + 1, 0x5A, size - sizeof *p < 64 ? size - sizeof *p : 64);
        list = p;
    }
}

static void release(struct node *list)
{
    while (list) {
        struct node *next = list->next;
        CHECK(((unsigned char *)(list + 1))[0] == 0x5A);
        free(list);
        list = next;
    }
}

/* A failed realloc leaves the block as it was. */
static void full_realloc(void)
{
    static const size_t huge = (size_t)1 << 40;
    char *p = malloc(32);
    if (!p) {
        CHECK(errno == ENOMEM);
        return;
    }
    fill(p, 32, 3);
    errno = 0;
    CHECK(realloc(p, huge) == NULL && errno == ENOMEM);
    CHECK(filled(p, 32, 3));
    free(p);
}

/* Each thread has its own size: which of them gets how much is a race. */
static void *exhauster(void *arg)
{
    static const size_t sizes[] = {300000, 20000, 300000, 100, 1 << 20, 5000};
    size_t first = (size_t)arg, size = sizes[first % (sizeof sizes / sizeof *sizes)];
    /* Nobody takes the memory that the others' stacks need. */
    pthread_barrier_wait(&limit_barrier);
    for (int round = 0; round < 4; round++) {
        struct node *list = exhaust(size);
        full_realloc();
        release(list);
        pthread_barrier_wait(&limit_barrier);
        /* Nothing is held now but what a thread may keep. */
        if (first == 0)
            for (int k = 0; k < 10; k++) {
                void *p = malloc(size);
                CHECK(p);
                free(p);
            }
        pthread_barrier_wait(&limit_barrier);
    }
    return NULL;
}

HELPER void exhaust_with_threads(size_t threads)
{
    pthread_t thread[16];
    pthread_attr_t small;
    CHECK(threads <= 16);
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 256 << 10);
    pthread_barrier_init(&limit_barrier, NULL, (unsigned)threads);
    for (size_t t = 0; t < threads; t++)
        CHECK(pthread_create(&thread[t], &small, exhauster, (void *)t) == 0);
    for (size_t t = 0; t < threads; t++)
        join(thread[t]);
    for (int i = 0; i < 100; i++)
        free(malloc((size_t)i * 1000));
}
