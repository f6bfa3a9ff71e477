#include <signal.h>
#include <time.h>
#include <unistd.h>
static volatile sig_atomic_t count;
static void got(int n) { (void)n; count++; }
int main(void) {
    struct timespec moment = {0, 1000000};
    signal(SIGINT, got);
    if (write(1, "ready\n", 6) != 6) return 99;
    /* Until two seconds after the last one; a minute for the first. */
    for (int i = 0, quiet = 0, before = 0; i < 60000 && (!count || quiet < 2000); i++) {
        nanosleep(&moment, 0);
        quiet = count == before ? quiet + 1 : 0;
        before = count;
    }
    return count;
}
