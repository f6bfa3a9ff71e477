/* Sixteen functions that allocate, each a separate call site: SITE(n) makes site_n. */
enum { SITES = 16 };

SITE(0) SITE(1) SITE(2) SITE(3) SITE(4) SITE(5) SITE(6) SITE(7)
SITE(8) SITE(9) SITE(10) SITE(11) SITE(12) SITE(13) SITE(14) SITE(15)

static void *(*const site[SITES])(size_t) = {
    site_0, site_1, site_2, site_3, site_4, site_5, site_6, site_7,
    site_8, site_9, site_10, site_11, site_12, site_13, site_14, site_15,
};
#define SITES_ARE_THERE
