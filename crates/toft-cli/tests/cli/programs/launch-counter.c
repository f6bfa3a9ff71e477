#include <signal.h>
#include <time.h>
#include <unistd.h>
static volatile sig_atomic_t count;
static void got(int n) { (void)n; count++; }
int main(void) {
    struct timespec moment = {0, 1000000};
    signal(SIGINT, got);
    if (write(1, "ready\n", 6) != 6) return 99;
    for (int i = 0; i < 600; i++) nanosleep(&moment, 0);
    return count;
}
