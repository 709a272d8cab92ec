/* features.[ch]: what is in use, by itself and in all. */
#include "core/features.h"

#include "support/unit.h"

static int nothingInUse(void **state) {
    (void)state;
    features_counts = (struct features){0};
    return 0;
}

static void nothing_is_in_use_at_first(void **state) {
    (void)state;
    assert_false(featuresInUse());
    for (int feature = 0; feature < FEATURE_COUNT; feature++) {
        assert_false(featuresHas((enum feature)feature));
        assert_int_equal(featuresCount((enum feature)feature), 0);
    }
}

static void each_feature_counts_for_itself(void **state) {
    (void)state;
    for (int used = 0; used < FEATURE_COUNT; used++) {
        featuresBegin((enum feature)used);
        for (int feature = 0; feature < FEATURE_COUNT; feature++) {
            assert_int_equal(featuresHas((enum feature)feature), feature == used);
        }
        assert_true(featuresInUse());
        featuresEnd((enum feature)used);
        assert_false(featuresInUse());
    }
}

static void a_feature_is_in_use_until_its_last_thing_has_ended(void **state) {
    (void)state;
    featuresBegin(FEATURE_WATCHES);
    featuresBegin(FEATURE_WATCHES);
    featuresBegin(FEATURE_SESSIONS);
    assert_int_equal(featuresCount(FEATURE_WATCHES), 2);
    featuresEnd(FEATURE_WATCHES);
    assert_true(featuresHas(FEATURE_WATCHES));
    featuresEnd(FEATURE_WATCHES);
    assert_false(featuresHas(FEATURE_WATCHES));
    assert_true(featuresInUse());
    featuresEnd(FEATURE_SESSIONS);
    assert_false(featuresInUse());
}

static void a_feature_with_one_thing_can_be_set_again(void **state) {
    (void)state;
    for (int round = 0; round < 2; round++) {
        featuresSet(FEATURE_QUARANTINE, true);
        featuresSet(FEATURE_QUARANTINE, true);
        assert_int_equal(featuresCount(FEATURE_QUARANTINE), 1);
        assert_true(featuresInUse());
        featuresSet(FEATURE_QUARANTINE, false);
        featuresSet(FEATURE_QUARANTINE, false);
        assert_false(featuresHas(FEATURE_QUARANTINE));
        assert_false(featuresInUse());
    }
}

static void setting_one_feature_leaves_the_others_in_use(void **state) {
    (void)state;
    featuresBegin(FEATURE_WAITERS);
    featuresSet(FEATURE_QUARANTINE, true);
    featuresSet(FEATURE_QUARANTINE, false);
    assert_true(featuresHas(FEATURE_WAITERS));
    assert_true(featuresInUse());
}

#define FEATURES_UNIT(test) cmocka_unit_test_setup(test, nothingInUse)

int main(void) {
    const struct CMUnitTest tests[] = {
        FEATURES_UNIT(nothing_is_in_use_at_first),
        FEATURES_UNIT(each_feature_counts_for_itself),
        FEATURES_UNIT(a_feature_is_in_use_until_its_last_thing_has_ended),
        FEATURES_UNIT(a_feature_with_one_thing_can_be_set_again),
        FEATURES_UNIT(setting_one_feature_leaves_the_others_in_use),
    };
    return cmocka_run_group_tests_name("features", tests, NULL, NULL);
}
