/* clusternodes.[ch]: where a node redirects a client, and which slots it serves, by its reply to
 * CLUSTER NODES. */
#include "core/clusternodes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/unit.h"

#define ME "aa 10.0.0.1:7001@17001 myself,master - 0 0 1 connected"
#define B "bb 10.0.0.2:7002@17002 master - 0 0 2 connected"
#define C "cc 10.0.0.3:7003@17003 master - 0 0 3 connected"

/* "MOVED host:port", "ASK host:port", or "" for no redirection. */
static const char *routeOf(const char *text, size_t length, int slot, enum clusternodesName name) {
    static char result[200];
    /* Without the zero behind it, so that the sanitizer detects reads beyond the end. */
    char *exact = malloc(length ? length : 1);
    memcpy(exact, text, length);
    struct clusternodesRoute route = clusternodesFind(exact, length, slot, name);
    result[0] = '\0';
    if (route.port.length > 0) {
        snprintf(result, sizeof result, "%s %.*s:%.*s", route.asks ? "ASK" : "MOVED",
                 (int)route.host.length, route.host.at, (int)route.port.length, route.port.at);
    }
    free(exact);
    return result;
}

/* The first of the slots of the node that replied, as " 1 2 3". */
static const char *ownOf(const char *text, size_t length) {
    static char result[200];
    struct clusternodesSlots slots;
    char *exact = malloc(length ? length : 1), *at = result;
    memset(&slots, 0xff, sizeof slots);
    memcpy(exact, text, length);
    clusternodesOwn(exact, length, &slots);
    result[0] = '\0';
    for (size_t slot = 0; slot < 8 * sizeof slots.bits && at < result + 100; slot++) {
        if (slots.bits[slot / 8] & (1U << (slot % 8))) {
            at += snprintf(at, 10, " %zu", slot);
        }
    }
    free(exact);
    return result;
}

#define assert_own(text, wanted) assert_string_equal(ownOf(text, strlen(text)), wanted)

#define assert_route(text, slot, wanted) \
    assert_string_equal(routeOf(text, strlen(text), slot, CLUSTERNODES_IP), wanted)
#define assert_route_by(name, text, slot, wanted) \
    assert_string_equal(routeOf(text, strlen(text), slot, name), wanted)

static void another_nodes_slot_is_redirected_by_moved(void **state) {
    (void)state;
    const char *text = ME " 0-99\n" B " 100-199 300\n" C " 200-299 301-16383\n";
    assert_route(text, 100, "MOVED 10.0.0.2:7002");
    assert_route(text, 199, "MOVED 10.0.0.2:7002");
    assert_route(text, 200, "MOVED 10.0.0.3:7003");
    assert_route(text, 299, "MOVED 10.0.0.3:7003");
    assert_route(text, 300, "MOVED 10.0.0.2:7002");
    assert_route(text, 301, "MOVED 10.0.0.3:7003");
    assert_route(text, 16383, "MOVED 10.0.0.3:7003");
}

static void own_slot_is_not_redirected(void **state) {
    (void)state;
    assert_route(ME " 0-99\n" B " 100-199\n", 0, "");
    assert_route(ME " 0-99\n" B " 100-199\n", 99, "");
}

static void slot_that_no_node_serves_is_not_redirected(void **state) {
    (void)state;
    assert_route(ME " 0-99\n" B " 100-199\n", 200, "");
    assert_route(ME "\n", 0, "");
    assert_route("", 0, "");
    assert_route(ME " 0-99\n" B " 100-199\n", -1, "");
}

static void own_slot_that_is_migrated_is_redirected_by_ask(void **state) {
    (void)state;
    const char *text = ME " 0-99 [7->-cc] [8->-bb]\n" B " 100-199\n" C " 200-299\n";
    assert_route(text, 7, "ASK 10.0.0.3:7003");
    assert_route(text, 8, "ASK 10.0.0.2:7002");
    assert_route(text, 9, "");
    assert_route(text, 77, "");
}

static void slot_that_is_imported_still_belongs_to_the_other_node(void **state) {
    (void)state;
    assert_route(ME " 0-99 [107-<-bb]\n" B " 100-199\n", 107, "MOVED 10.0.0.2:7002");
}

static void slot_migrated_to_an_unknown_node_is_not_redirected(void **state) {
    (void)state;
    assert_route(ME " 0-99 [7->-zz]\n" B " 100-199\n", 7, "");
    assert_route(ME " 0-99 [7->-]\n" B " 100-199\n", 7, "");
    assert_route(ME " 0-99 [7->-bb\n" B " 100-199\n", 7, "ASK 10.0.0.2:7002");
}

static void order_of_the_nodes_does_not_matter(void **state) {
    (void)state;
    assert_route(C " 200-299\n" B " 100-199\n" ME " 0-99 [7->-cc]\n", 7, "ASK 10.0.0.3:7003");
    assert_route(C " 200-299\n" B " 100-199\n" ME " 0-99 [7->-cc]\n", 150, "MOVED 10.0.0.2:7002");
}

static void address_may_have_colons(void **state) {
    (void)state;
    assert_route("bb ::1:7002@17002 master - 0 0 2 connected 5\n", 5, "MOVED ::1:7002");
    assert_route("bb 2001:db8::7:7002@17002 master - 0 0 2 connected 5\n", 5,
                 "MOVED 2001:db8::7:7002");
}

static void hostname_and_fields_after_the_bus_port_are_not_the_address(void **state) {
    (void)state;
    assert_route("bb 10.0.0.2:7002@17002,b.example master - 0 0 2 connected 5\n", 5,
                 "MOVED 10.0.0.2:7002");
    assert_route("bb 10.0.0.2:7002@17002,,tls-port=7,shard-id=ff master - 0 0 2 connected 5\n", 5,
                 "MOVED 10.0.0.2:7002");
}

static void hostname_is_used_where_it_is_preferred(void **state) {
    (void)state;
    const char *given = "bb ::1:7002@17002,b.example,shard-id=ff master - 0 0 2 connected 5\n";
    const char *none = "bb ::1:7002@17002 master - 0 0 2 connected 5\n";
    const char *empty = "bb ::1:7002@17002,,shard-id=ff master - 0 0 2 connected 5\n";
    const char *shortest = "bb ::1:7002@17002,b master - 0 0 2 connected 5\n";
    assert_route_by(CLUSTERNODES_HOSTNAME, given, 5, "MOVED b.example:7002");
    assert_route_by(CLUSTERNODES_HOSTNAME, shortest, 5, "MOVED b:7002");
    assert_route_by(CLUSTERNODES_HOSTNAME, none, 5, "MOVED ?:7002");
    assert_route_by(CLUSTERNODES_HOSTNAME, empty, 5, "MOVED ?:7002");
    assert_route_by(CLUSTERNODES_NO_NAME, given, 5, "MOVED :7002");
    assert_route_by(CLUSTERNODES_NO_NAME, none, 5, "MOVED :7002");
}

static void target_of_a_migration_is_named_as_preferred_too(void **state) {
    (void)state;
    const char *text = ME " 0-99 [7->-bb]\n"
                          "bb 10.0.0.2:7002@17002,b.example master - 0 0 2 connected\n";
    assert_route_by(CLUSTERNODES_HOSTNAME, text, 7, "ASK b.example:7002");
    assert_route_by(CLUSTERNODES_NO_NAME, text, 7, "ASK :7002");
}

static void node_of_unknown_address_is_not_redirected_to(void **state) {
    (void)state;
    assert_route("bb :0@0 master,noaddr - 0 0 2 disconnected 5\n", 5, "");
    assert_route_by(CLUSTERNODES_HOSTNAME,
                    "bb :0@0,b.example master,noaddr - 0 0 2 disconnected 5\n", 5, "");
    assert_route(ME " 0-99 [7->-bb]\nbb :0@0 master,noaddr - 0 0 2 disconnected\n", 7, "");
}

static void lines_that_cannot_be_parsed_are_skipped(void **state) {
    (void)state;
    const char *text = "\n\nbb 10.0.0.9\nnothing known\n" B " x 1-y 5- -5 99999999999999999999 5\n";
    assert_route(text, 5, "MOVED 10.0.0.2:7002");
    assert_route(text, 1, "");
    assert_route("bb 7002 master - 0 0 2 connected 5\n", 5, "");
    assert_route(B " 5", 5, "MOVED 10.0.0.2:7002"); /* the last line without a newline */
}

static void the_flag_myself_marks_the_node_that_replied(void **state) {
    (void)state;
    assert_route("aa 10.0.0.1:7001@17001 master,myself - 0 0 1 connected 5\n", 5, "");
    assert_route("myself 10.0.0.2:7002@17002 master - 0 0 2 connected 5\n", 5,
                 "MOVED 10.0.0.2:7002");
}

static void own_slots_are_those_of_the_node_that_replied(void **state) {
    (void)state;
    assert_own(B " 1-9\n" ME " 10-12 14 16383\n" C " 20\n", " 10 11 12 14 16383");
    assert_own(ME "\n" B " 1-9\n", "");
    assert_own("aa 10.0.0.1:7001@17001 myself,slave bb 0 0 1 connected\n" B " 1\n", "");
    assert_own("", "");
}

static void slot_that_is_migrated_belongs_to_its_current_owner(void **state) {
    (void)state;
    assert_own(ME " 5-6 [6->-bb] [7-<-bb]\n", " 5 6");
}

static void invalid_slots_are_skipped(void **state) {
    (void)state;
    assert_own(ME " 1 x 2-x 3-4y 16384 16383-16384 9-8 5\n", " 1 5");
}

/* Any part of a text, also with a few bytes changed, is read within its bounds. */
static void malformed_texts_are_read_within_their_bounds(void **state) {
    (void)state;
    const char text[] = ME " 0-99 [7->-cc] [8-<-bb]\n" B " 100-199 300\n" C " 200-299\n";
    const char bytes[] = " \n,:@[]-<>0129ab";
    struct fuzz fuzz = fuzzStart("clusternodes", 20000);
    for (size_t i = 0; i < fuzz.steps; i++) {
        char changed[sizeof text];
        memcpy(changed, text, sizeof text);
        for (size_t n = fuzzBelow(&fuzz, 4); n > 0; n--) {
            changed[fuzzBelow(&fuzz, sizeof text - 1)] = bytes[fuzzBelow(&fuzz, sizeof bytes - 1)];
        }
        size_t from = fuzzBelow(&fuzz, sizeof text - 1);
        size_t length = fuzzBelow(&fuzz, sizeof text - from);
        int slot = (int)fuzzBelow(&fuzz, 320) - 1;
        routeOf(changed + from, length, slot, (enum clusternodesName)fuzzBelow(&fuzz, 3));
        ownOf(changed + from, length);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        UNIT(another_nodes_slot_is_redirected_by_moved),
        UNIT(own_slot_is_not_redirected),
        UNIT(slot_that_no_node_serves_is_not_redirected),
        UNIT(own_slot_that_is_migrated_is_redirected_by_ask),
        UNIT(slot_that_is_imported_still_belongs_to_the_other_node),
        UNIT(slot_migrated_to_an_unknown_node_is_not_redirected),
        UNIT(order_of_the_nodes_does_not_matter),
        UNIT(address_may_have_colons),
        UNIT(hostname_and_fields_after_the_bus_port_are_not_the_address),
        UNIT(hostname_is_used_where_it_is_preferred),
        UNIT(target_of_a_migration_is_named_as_preferred_too),
        UNIT(node_of_unknown_address_is_not_redirected_to),
        UNIT(lines_that_cannot_be_parsed_are_skipped),
        UNIT(the_flag_myself_marks_the_node_that_replied),
        UNIT(own_slots_are_those_of_the_node_that_replied),
        UNIT(slot_that_is_migrated_belongs_to_its_current_owner),
        UNIT(invalid_slots_are_skipped),
        UNIT(malformed_texts_are_read_within_their_bounds),
    };
    return cmocka_run_group_tests_name("clusternodes", tests, NULL, NULL);
}
