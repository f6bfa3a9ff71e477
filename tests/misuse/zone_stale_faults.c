// After a zone is destroyed every access to what was in it faults: small and large blocks, first
// byte and last, reading and writing; and no address of it is handed out again, by malloc or to
// other zones.
// libc: skip it has no zones
// promise: 12
#include "faults.h"
#include "zones.h"

enum { SIZES = 9 };
static const size_t size[SIZES] = {1, 16, 100, 1000, 5000, 16384, 16385, 100000, 5 << 20};
static char *p[20][SIZES];

static int is_old(const char *at, int rounds)
{
    for (int r = 0; r < rounds; r++)
        for (int i = 0; i < SIZES; i++)
            if (at >= p[r][i] && at < p[r][i] + size[i])
                return 1;
    return 0;
}

int main(void)
{
    catch_faults();
    uint64_t bystander = zone_named("bystander");
    char *safe = from_zone(bystander, 100);
    fill(safe, 100, 7);
    for (int r = 0; r < 20; r++) {
        uint64_t zone = zone_named("goes");
        for (int i = 0; i < SIZES; i++) {
            p[r][i] = from_zone(zone, size[i]);
            CHECK(!is_old(p[r][i], r) && !is_old(p[r][i] + size[i] - 1, r));
            fill(p[r][i], size[i], (uint64_t)i);
        }
        for (int i = 0; i < SIZES; i++)
            CHECK(!faults(p[r][i]) && filled(p[r][i], size[i], (uint64_t)i));
        CHECK(zone_destroy(zone) == 0);
        for (int i = 0; i < SIZES; i++) {
            CHECK(faults(p[r][i]) && faults(p[r][i] + size[i] - 1));
            CHECK(faults_on_write(p[r][i]) && faults_on_write(p[r][i] + size[i] - 1));
        }
    }
    for (int i = 0; i < 20000; i++) {
        char *q = launder(malloc((size_t)i * 7 % 40000 + 1));
        CHECK(q && !is_old(q, 20));
    }
    CHECK(filled(safe, 100, 7));
    for (int r = 0; r < 20; r++)
        for (int i = 0; i < SIZES; i++)
            CHECK(faults(p[r][i]));
    return 0;
}
