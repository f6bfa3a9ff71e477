// A signal handler uses zones while it interrupts calls about zones. Its own zones, old and new,
// always serve it; of the one that was interrupted it gets memory, or EDEADLK at once. Nothing
// hangs, and the zone stays whole.
// flags: -pthread
// timeout: 60
// libc: skip it has no zones
// promise: 24
#include "../zones.h"
#include <sys/time.h>

static uint64_t shared, own;
static volatile long served, refused, other, whole, failed;

static void on_alarm(int signal)
{
    (void)signal;
    int error = errno;
    void *p = zone_malloc(shared, 5000);
    if (p)
        served++;
    else if (errno == EDEADLK)
        refused++;
    else
        other++;
    void *q = zone_malloc(own, 100);
    if (q)
        zone_free(own, q);
    /* Each of these needs addresses, or gives them back, and the call that was interrupted may be doing so as well. */
    void *large = zone_malloc(own, 40000);
    uint64_t brief = zone_create("brief");
    if (large && brief && zone_malloc(brief, 50) && zone_destroy(brief) == 0)
        whole++;
    else
        failed++;
    if (large)
        zone_free(own, large);
    errno = error;
}

int main(void)
{
    shared = zone_named("shared");
    own = zone_named("own");
    CHECK(from_zone(own, 100));
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    struct itimerval every = {{0, 200}, {0, 200}};
    CHECK(setitimer(ITIMER_REAL, &every, NULL) == 0);
    double end = now() + 2;
    uint64_t rounds = 0;
    for (; now() < end || !served || !refused || !whole; rounds++) {
        void *p = zone_malloc(shared, 100 + rounds % 3000);
        CHECK(p);
        zone_free(shared, p);
        p = zone_malloc(shared, 20000);
        CHECK(p);
        zone_free(shared, p);
        uint64_t third = zone_named("third");
        CHECK(zone_malloc(third, 10) && zone_destroy(third) == 0);
    }
    struct itimerval never = {{0, 0}, {0, 0}};
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    CHECK(served > 0 && refused > 0 && other == 0 && whole > 0 && failed == 0);
    CHECK(stats_of(shared).live_blocks == (uint64_t)served);
    CHECK(stats_of(own).live_blocks == 1);
    CHECK(zone_verify(shared) == 0 && zone_verify(own) == 0);
    return 0;
}
