/* A small server, as `cargo xtask pictures` shows it: a cache that is filled, an index, and sessions that come and go. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAGES = 3000, WORDS = 60000, SESSIONS = 8000 };

static char *cache[PAGES], *words[WORDS], *sessions[SESSIONS], *headers[SESSIONS];

static char *filled(char *block, size_t size) { return memset(block, 1, size); }

static void load_page(int i) { cache[i] = filled(malloc(16000), 16000); }
static void index_word(int i) { words[i] = filled(malloc(40), 40); }
static void open_session(int i) { sessions[i] = filled(malloc(1200), 1200); }
static void read_headers(int i) { headers[i] = filled(malloc(300), 300); }
static void close_session(int i) { free(sessions[i]); free(headers[i]); }
static char *compile_templates(void) { return filled(malloc(6 << 20), 6 << 20); }

static char *templates;

int main(void) {
    templates = compile_templates();
    for (int i = 0; i < PAGES; i++) load_page(i);
    for (int i = 0; i < WORDS; i++) index_word(i);
    for (int i = 0; i < SESSIONS; i++) { open_session(i); read_headers(i); }
    for (int i = 0; ; i = (i + 1) % SESSIONS) {
        close_session(i);
        open_session(i);
        read_headers(i);
        usleep(200);
    }
}
