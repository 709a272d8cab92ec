/* Printing. ASCII only, so that a byte is a column. */

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "base/table.h"

enum { CELL = 24 };

static unsigned missed;

void tableHead(const char *name, const char *summary) {
    printf("\n%s: %s\n", name, summary);
    printf("  %-52s %10s %10s %7s %13s %9s\n", "", "ours", "theirs", "ratio", "low - high",
           "target");
}

/* "14200" becomes "14,200". */
static void formatGrouped(char *cell, double value) {
    char digits[CELL];
    snprintf(digits, sizeof(digits), "%.0f", value);
    size_t length = strlen(digits);
    size_t out = 0;
    for (size_t i = 0; i < length && out < CELL - 2; i++) {
        if (i > 0 && (length - i) % 3 == 0) {
            cell[out++] = ',';
        }
        cell[out++] = digits[i];
    }
    cell[out] = '\0';
}

static void formatQuantity(char *cell, double value, Unit unit) {
    switch (unit) {
    case UNIT_INSTRUCTIONS:
        formatGrouped(cell, value);
        return;
    case UNIT_BYTES:
        snprintf(cell, CELL, "%.1f B", value);
        return;
    case UNIT_SHARE:
        snprintf(cell, CELL, "%.2f %%", 100 * value);
        return;
    case UNIT_NS:
        break;
    }
    if (value >= 1e6 || value <= -1e6) {
        snprintf(cell, CELL, "%.2f ms", value / 1e6);
    } else {
        snprintf(cell, CELL, "%.2f us", value / 1e3);
    }
}

static void formatTarget(char *cell, const Row *row) {
    char limit[CELL] = "";
    if (row->target_kind == TARGET_RATIO) {
        snprintf(limit, CELL, "%.2f", row->target);
    }
    if (row->target_kind == TARGET_OURS) {
        formatQuantity(limit, row->target, row->unit);
    }
    snprintf(cell, CELL, "%s%.20s", row->target_kind == TARGET_NONE ? "" : "<= ", limit);
}

static const char *verdict(const Row *row) {
    if (row->target_kind == TARGET_NONE) {
        return "";
    }
    double value = row->target_kind == TARGET_RATIO ? row->ratio : row->ours;
    if (value <= row->target) {
        return "ok";
    }
    missed++;
    return "MISSED";
}

void tableRow(const Row *given) {
    Row row = *given;
    char ours[CELL], theirs[CELL] = "", ratio[CELL] = "", spread[CELL] = "", target[CELL];
    formatQuantity(ours, row.ours, row.unit);
    if (row.theirs > 0) {
        if (row.ratio <= 0) {
            row.ratio = row.ours / row.theirs;
        }
        formatQuantity(theirs, row.theirs, row.unit);
        snprintf(ratio, CELL, "%.3f", row.ratio);
    }
    if (row.high > 0) {
        snprintf(spread, CELL, "%.3f - %.3f", row.low, row.high);
    }
    formatTarget(target, &row);
    printf("  %-52s %10s %10s %7s %13s %9s %s\n", row.label, ours, theirs, ratio, spread, target,
           verdict(&row));
    fflush(stdout);
}

void tableSeries(Row row, Series *ours, Series *theirs) {
    if (theirs != NULL) {
        Series ratio = seriesRatio(ours, theirs);
        row.ratio = seriesMedian(&ratio);
        row.low = seriesAt(&ratio, 0);
        row.high = seriesAt(&ratio, 1);
        row.theirs = seriesMedian(theirs);
        seriesFree(&ratio);
    }
    row.ours = seriesMedian(ours);
    tableRow(&row);
}

void tableNote(const char *format, ...) {
    va_list args;
    printf("  ");
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
    fflush(stdout);
}

unsigned tableMissed(void) {
    return missed;
}
