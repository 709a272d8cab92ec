/* See screen.h. */
#include "look/screen.h"

#include <curses.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/printable.h"

/* The lines above the locks: the server's data, the head of the table; and below: the keys. */
#define HEAD_LINES 5
#define FOOT_LINES 1
#define SHORTEST_NAME 14
#define BAR 6
/* The width between the name and the holder: waiters, the bar, waits/s, three durations. */
#define NUMBERS (8 + BAR + 1 + 8 + 3 * 7)

enum colour { COLOUR_HOT = 1, COLOUR_WARM, COLOUR_HEAD, COLOUR_BAR };

static int detailLines(void) {
    return LINES >= 20 ? (LINES - HEAD_LINES - FOOT_LINES) / 3 : 0;
}

size_t screenRows(void) {
    int rows = LINES - HEAD_LINES - FOOT_LINES - detailLines();
    return rows > 0 ? (size_t)rows : 1;
}

void screenBegin(struct screen *screen) {
    *screen = (struct screen){0};
    initscr();
    cbreak();
    noecho();
    nodelay(stdscr, TRUE);
    keypad(stdscr, TRUE);
    curs_set(0);
    if (has_colors()) {
        start_color();
        use_default_colors();
        init_pair(COLOUR_HOT, COLOR_RED, -1);
        init_pair(COLOUR_WARM, COLOR_YELLOW, -1);
        init_pair(COLOUR_HEAD, COLOR_CYAN, -1);
        init_pair(COLOUR_BAR, COLOR_GREEN, -1);
    }
}

void screenEnd(struct screen *screen) {
    free(screen->name);
    screen->name = NULL;
    endwin();
}

/* Sets the size explicitly, because the event loop receives the signal, and curses does not. */
void screenResize(void) {
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0) {
        resizeterm(size.ws_row, size.ws_col);
        clear();
    }
}

/* ---- selection ---- */

static void keepName(struct screen *screen, const struct sample *sample) {
    free(screen->name);
    screen->name = NULL;
    if (screen->selected < sample->count) {
        const struct sampleLock *lock = &sample->locks[screen->selected];
        screen->name = memoryCopy(lock->name, lock->length);
        screen->length = lock->length;
    }
}

static void keepInSight(struct screen *screen) {
    size_t rows = screenRows();
    if (screen->selected < screen->first) {
        screen->first = screen->selected;
    } else if (screen->selected >= screen->first + rows) {
        screen->first = screen->selected - rows + 1;
    }
}

void screenFollow(struct screen *screen, const struct sample *sample) {
    for (size_t i = 0; screen->name && i < sample->count; i++) {
        const struct sampleLock *lock = &sample->locks[i];
        if (lock->length == screen->length && memcmp(lock->name, screen->name, lock->length) == 0) {
            screen->selected = i;
            break;
        }
    }
    if (screen->selected >= sample->count) {
        screen->selected = sample->count ? sample->count - 1 : 0;
    }
    keepInSight(screen);
}

/* ---- drawing ---- */

/* Prints as printf, cut to the width of the line. */
static void drawClipped(int line, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void drawClipped(int line, const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    mvaddnstr(line, 0, text, COLS);
}

static void drawTop(const struct gather *gather) {
    char clock[16];
    time_t now = time(NULL);
    struct tm parts;
    strftime(clock, sizeof(clock), "%H:%M:%S", localtime_r(&now, &parts));
    const struct nodes *nodes = &gather->nodes;
    attron(A_BOLD);
    if (nodes->count == 1) {
        drawClipped(0, "lockctl top  %s", nodes->list[0]->place);
    } else {
        drawClipped(0, "lockctl top  %zu of %zu nodes", gather->now.nodes_replied, nodes->count);
    }
    attroff(A_BOLD);
    mvaddstr(0, COLS > 10 ? COLS - 8 : 0, clock);
}

static void drawTotals(const struct sampleTotals *totals) {
    char rates[64] = "";
    if (totals->granted_per_s >= 0) {
        snprintf(rates, sizeof(rates), "  grants/s %.0f, after a wait %.0f", totals->granted_per_s,
                 totals->waited_per_s);
    }
    drawClipped(1, "waiters %" PRId64 "  locks %" PRId64 "  sessions %" PRId64 "%s",
                totals->waiters, totals->contended, totals->sessions, rates);
    drawClipped(2,
                "waits p50 %" PRId64 " p99 %" PRId64 " p99.9 %" PRId64 " max %" PRId64
                " ms  lease ends %" PRId64 "  time-outs %" PRId64 "  deadlocks %" PRId64,
                totals->p50_ms, totals->p99_ms, totals->p99_9_ms, totals->max_ms,
                totals->lease_ends, totals->time_outs, totals->deadlocks);
}

static void drawTrouble(const struct gather *gather) {
    const char *trouble = gather->error;
    for (size_t i = 0; !trouble && i < gather->nodes.count; i++) {
        trouble = gather->nodes.list[i]->trouble;
    }
    if (trouble) {
        attron(A_BOLD | COLOR_PAIR(COLOUR_HOT));
        mvaddnstr(3, 0, trouble, COLS - 1);
        attroff(A_BOLD | COLOR_PAIR(COLOUR_HOT));
    }
}

/* Returns the width of the name. The holder has the rest of the line, after the numbers. */
static int nameWidth(void) {
    int left = COLS - NUMBERS - 2;
    int share = left * 3 / 5;
    return share > SHORTEST_NAME ? share : SHORTEST_NAME;
}

static void drawHeads(const struct screen *screen) {
    static const char *const orders[] = {"total time", "waiters", "waits/s",
                                         "mean",       "longest", "name"};
    attron(A_REVERSE);
    mvhline(4, 0, ' ', COLS);
    drawClipped(4, "%-*s%7s %-*s %8s%7s%8s%6s  HOLDER", nameWidth(), "LOCK", "WAITERS", BAR, "",
                "WAITS/s", "MEAN", "LONGEST", "HELD");
    attroff(A_REVERSE);
    mvprintw(3, COLS - 22 > 0 ? COLS - 22 : 0, "%s%s", screen->is_paused ? "paused, " : "by ",
             orders[screen->order]);
}

/* Draws a bar for the number of waiters, relative to the lock with the most waiters. */
static void drawBar(int64_t waiters, int64_t most) {
    int length = most > 0 ? (int)((waiters * BAR + most - 1) / most) : 0;
    attron(COLOR_PAIR(COLOUR_BAR));
    for (int i = 0; i < BAR; i++) {
        addch(i < length ? '|' : ' ');
    }
    attroff(COLOR_PAIR(COLOUR_BAR));
}

static void drawDuration(int64_t us) {
    char room[16];
    int pair = us >= 10 * 1000000 ? COLOUR_HOT : us >= 1000000 ? COLOUR_WARM : 0;
    attron(COLOR_PAIR(pair));
    printw("%7s", sampleDuration(room, us));
    attroff(COLOR_PAIR(pair));
}

static void drawText(const char *bytes, size_t length, int width) {
    char *text = printableText(bytes, length);
    char *cut = printableCut(text, width > 0 ? (size_t)width : 0);
    addstr(cut);
    printw("%*s", width - (int)printableWidth(cut), "");
    free(cut);
    free(text);
}

static void drawHolder(const struct sampleLock *lock) {
    int left = COLS - getcurx(stdscr) - 2;
    if (left < 4 || !lock->holder) {
        return;
    }
    addstr("  ");
    char *more =
        lock->holders > 1 ? memoryPrint(" +%zu", lock->holders - 1) : memoryPrint("%s", "");
    drawText(lock->holder, lock->holder_length, left - (int)strlen(more));
    addstr(more);
    free(more);
}

static void drawLock(const struct sampleLock *lock, int line, bool is_selected, int64_t most) {
    attr_t weight = is_selected ? A_BOLD : A_NORMAL;
    attron(weight);
    move(line, 0);
    addstr(is_selected ? ">" : " ");
    drawText(lock->name, lock->length, nameWidth() - 2);
    printw(" %7" PRId64 " ", lock->waiters);
    drawBar(lock->waiters, most);
    if (lock->waits_per_s < 0) {
        printw(" %8s", "-");
    } else {
        printw(" %8.0f", lock->waits_per_s);
    }
    drawDuration(lock->mean_us);
    drawDuration(lock->longest_us);
    drawDuration(lock->held_us);
    drawHolder(lock);
    attroff(weight);
}

static void drawLocks(const struct screen *screen, const struct sample *sample) {
    int64_t most = 0;
    for (size_t i = 0; i < sample->count; i++) {
        most = sample->locks[i].waiters > most ? sample->locks[i].waiters : most;
    }
    for (size_t i = 0; i < screenRows() && screen->first + i < sample->count; i++) {
        size_t number = screen->first + i;
        drawLock(&sample->locks[number], HEAD_LINES + (int)i, number == screen->selected, most);
    }
    if (sample->count == 0) {
        mvaddstr(HEAD_LINES + 1, 2, "no client has waited for a lock yet");
    }
}

static void drawDetail(const struct detail *detail, bool has_lock) {
    int line = LINES - FOOT_LINES - detailLines();
    if (detailLines() == 0 || !has_lock) {
        return;
    }
    mvhline(line, 0, ACS_HLINE, COLS);
    for (size_t i = 0; i < detail->count && (int)i + 1 < detailLines(); i++) {
        move(line + 1 + (int)i, 1);
        char *cut = printableCut(detail->lines[i], COLS > 2 ? (size_t)COLS - 2 : 0);
        addstr(cut);
        free(cut);
    }
}

static void drawKeys(const struct screen *screen) {
    attron(COLOR_PAIR(COLOUR_HEAD));
    mvaddnstr(LINES - 1, 0,
              screen->wants_help
                  ? "t total  w waiters  r waits/s  m mean  l longest  n name  p pause  q quit"
                  : "up, down: select   t w r m l n: sort   p: pause   h: help   q: quit",
              COLS - 1);
    attroff(COLOR_PAIR(COLOUR_HEAD));
}

void screenDraw(const struct screen *screen, const struct gather *gather) {
    erase();
    drawTop(gather);
    drawTotals(&gather->now.totals);
    drawHeads(screen);
    drawTrouble(gather);
    drawLocks(screen, &gather->now);
    drawDetail(&gather->detail, gather->now.count > 0);
    drawKeys(screen);
    refresh();
}

/* ---- keys ---- */

static void moveBy(struct screen *screen, const struct sample *sample, long rows) {
    long last = sample->count ? (long)sample->count - 1 : 0;
    long wanted = (long)screen->selected + rows;
    screen->selected = (size_t)(wanted < 0 ? 0 : wanted > last ? last : wanted);
    keepName(screen, sample);
    keepInSight(screen);
}

static enum screenWish press(struct screen *screen, const struct sample *sample, int key) {
    static const char orders[] = "twrmln";
    const char *order = key > 0 && key < 128 ? strchr(orders, key) : NULL;
    long page = (long)screenRows();
    if (order) {
        screen->order = (enum sampleOrder)(order - orders);
        return SCREEN_SAMPLE;
    }
    switch (key) {
    case 'q':
        return SCREEN_QUIT;
    case 'p':
        screen->is_paused = !screen->is_paused;
        return SCREEN_DRAW;
    case 'h':
    case '?':
        screen->wants_help = !screen->wants_help;
        return SCREEN_DRAW;
    case KEY_UP:
    case 'k':
        moveBy(screen, sample, -1);
        return SCREEN_SAMPLE;
    case KEY_DOWN:
    case 'j':
        moveBy(screen, sample, 1);
        return SCREEN_SAMPLE;
    case KEY_PPAGE:
        moveBy(screen, sample, -page);
        return SCREEN_SAMPLE;
    case KEY_NPAGE:
        moveBy(screen, sample, page);
        return SCREEN_SAMPLE;
    case KEY_RESIZE:
        keepInSight(screen);
        return SCREEN_DRAW;
    default:
        return SCREEN_NOTHING;
    }
}

enum screenWish screenKeys(struct screen *screen, const struct sample *sample) {
    enum screenWish wish = SCREEN_NOTHING;
    int key;
    while ((key = getch()) != ERR) {
        enum screenWish wanted = press(screen, sample, key);
        wish = wanted > wish ? wanted : wish;
    }
    return wish;
}
