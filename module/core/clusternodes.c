/* See clusternodes.h. */
#include "core/clusternodes.h"

#include <string.h>

#define WORDS_BEFORE_SLOTS 8
#define LARGEST_SLOT 16383

static const struct clusternodesPiece NOTHING = {"", 0};
static const struct clusternodesPiece NAMELESS = {"?", 1};

/* Cuts the bytes before the next `separator`, or all bytes if there is none, off `rest`. Returns
 * false if nothing is left. */
static bool cut(struct clusternodesPiece *rest, char separator, struct clusternodesPiece *piece) {
    if (rest->length == 0) {
        return false;
    }
    const char *end = memchr(rest->at, separator, rest->length);
    piece->at = rest->at;
    piece->length = end ? (size_t)(end - rest->at) : rest->length;
    size_t used = piece->length + (end ? 1 : 0);
    rest->at += used;
    rest->length -= used;
    return true;
}

/* Cuts the last `separator` and what follows it off `text`. Returns what follows it; nothing if
 * there is no separator. */
static struct clusternodesPiece cutLast(struct clusternodesPiece *text, char separator) {
    for (size_t i = text->length; i > 0; i--) {
        if (text->at[i - 1] == separator) {
            struct clusternodesPiece last = {text->at + i, text->length - i};
            text->length = i - 1;
            return last;
        }
    }
    return NOTHING;
}

static bool startsWith(struct clusternodesPiece piece, const char *word) {
    size_t length = strlen(word);
    return piece.length >= length && memcmp(piece.at, word, length) == 0;
}

static bool equal(struct clusternodesPiece one, struct clusternodesPiece other) {
    return one.length == other.length && one.length > 0 &&
           memcmp(one.at, other.at, one.length) == 0;
}

struct node {
    struct clusternodesPiece id, address, flags, slots;
};

/* Stores the next node of the text; one with empty fields for a line that cannot be parsed. Returns
 * false at the end. */
static bool readNode(struct clusternodesPiece *text, struct node *node) {
    struct clusternodesPiece line, words[WORDS_BEFORE_SLOTS];
    if (!cut(text, '\n', &line)) {
        return false;
    }
    *node = (struct node){NOTHING, NOTHING, NOTHING, NOTHING};
    for (int i = 0; i < WORDS_BEFORE_SLOTS; i++) {
        if (!cut(&line, ' ', &words[i])) {
            return true;
        }
    }
    *node = (struct node){words[0], words[1], words[2], line};
    return true;
}

static bool isMyself(const struct node *node) {
    struct clusternodesPiece flags = node->flags, flag;
    while (cut(&flags, ',', &flag)) {
        if (startsWith(flag, "myself")) {
            return true;
        }
    }
    return false;
}

/* Cuts a slot's number off `rest`. Returns false if there is none. */
static bool cutSlot(struct clusternodesPiece *rest, int *slot) {
    size_t digits = 0;
    *slot = 0;
    while (digits < rest->length && rest->at[digits] >= '0' && rest->at[digits] <= '9') {
        *slot = *slot * 10 + (rest->at[digits] - '0');
        digits++;
        if (*slot > LARGEST_SLOT) {
            return false;
        }
    }
    rest->at += digits;
    rest->length -= digits;
    return digits > 0;
}

/* Parses `n` or `first-last`. Returns false if it is neither. */
static bool readRange(struct clusternodesPiece range, int *first, int *last) {
    if (!cutSlot(&range, first)) {
        return false;
    }
    *last = *first;
    if (startsWith(range, "-")) {
        range.at++;
        range.length--;
        if (!cutSlot(&range, last)) {
            return false;
        }
    }
    return range.length == 0;
}

static bool isWithin(struct clusternodesPiece range, int slot) {
    int first, last;
    return readRange(range, &first, &last) && first <= slot && slot <= last;
}

/* The id in `[n->-id]` if n is the slot; else nothing. */
static struct clusternodesPiece givenTo(struct clusternodesPiece word, int slot) {
    int number;
    struct clusternodesPiece rest = {word.at + 1, word.length - 1};
    if (cutSlot(&rest, &number) && number == slot && startsWith(rest, "->-")) {
        struct clusternodesPiece id;
        rest.at += 3;
        rest.length -= 3;
        return cut(&rest, ']', &id) ? id : NOTHING;
    }
    return NOTHING;
}

/* Whether the node serves the slot. If it migrates the slot, `target` is the id of the target node;
 * else nothing. */
static bool serves(const struct node *node, int slot, struct clusternodesPiece *target) {
    struct clusternodesPiece slots = node->slots, word;
    bool found = false;
    *target = NOTHING;
    while (cut(&slots, ' ', &word)) {
        if (!startsWith(word, "[")) {
            found = found || isWithin(word, slot);
        } else if (target->length == 0) {
            *target = givenTo(word, slot);
        }
    }
    return found;
}

/* What a client needs to find a node. */
struct address {
    struct clusternodesPiece ip, port, hostname;
};

/* The port is behind the last colon: an IPv6 address has colons too. */
static struct address readAddress(struct clusternodesPiece text) {
    struct address address = {NOTHING, NOTHING, NOTHING};
    struct clusternodesPiece numbers = NOTHING;
    cut(&text, ',', &numbers);
    cut(&text, ',', &address.hostname);
    cut(&numbers, '@', &address.ip);
    address.port = cutLast(&address.ip, ':');
    return address;
}

/* The IP address is empty if the node that sent the text has never reached this one. Then the port
 * is not known either. */
static void setAddress(struct clusternodesRoute *route, const struct node *node,
                       enum clusternodesName name) {
    struct address address = readAddress(node->address);
    if (address.ip.length == 0) {
        return;
    }
    route->port = address.port;
    switch (name) {
    case CLUSTERNODES_IP:
        route->host = address.ip;
        break;
    case CLUSTERNODES_HOSTNAME:
        route->host = address.hostname.length > 0 ? address.hostname : NAMELESS;
        break;
    case CLUSTERNODES_NO_NAME:
        break;
    }
}

static void setAddressOf(struct clusternodesRoute *route, struct clusternodesPiece text,
                         struct clusternodesPiece id, enum clusternodesName name) {
    struct node node;
    while (readNode(&text, &node)) {
        if (equal(node.id, id)) {
            setAddress(route, &node, name);
            return;
        }
    }
}

struct clusternodesRoute clusternodesFind(const char *text, size_t length, int slot,
                                          enum clusternodesName name) {
    struct clusternodesRoute route = {.host = NOTHING, .port = NOTHING};
    struct clusternodesPiece all = {text, length}, rest = all, target;
    struct node node;
    while (readNode(&rest, &node)) {
        if (!serves(&node, slot, &target)) {
            continue;
        }
        if (isMyself(&node)) {
            route.asks = true;
            setAddressOf(&route, all, target, name);
        } else {
            setAddress(&route, &node, name);
        }
        break;
    }
    return route;
}

void clusternodesOwn(const char *text, size_t length, struct clusternodesSlots *slots) {
    struct clusternodesPiece all = {text, length}, range;
    struct node node;
    int first, last;
    memset(slots, 0, sizeof(*slots));
    while (readNode(&all, &node)) {
        while (isMyself(&node) && cut(&node.slots, ' ', &range)) {
            for (bool is_range = readRange(range, &first, &last); is_range && first <= last;
                 first++) {
                slots->bits[first / 8] |= (uint8_t)(1U << (first % 8));
            }
        }
    }
}
