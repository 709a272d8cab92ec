"""The pages that are generated from the data file of `make bench-field`. No server."""

import json
from types import SimpleNamespace

import pytest
from harness.fieldrunner import part

markdown, model, scalepage, data = part("markdown"), part("model"), part("scalepage"), part("data")


def locker(name, ours=False, durable=False, beside="ours"):
    return SimpleNamespace(name=name, label=name.title(), ours=ours, durable=durable, beside=beside, promise="much")


LOCKERS = [locker("ours", ours=True), locker("rival"), locker("disk", durable=True), locker("gone"), locker("bare")]


def figure(median, low=None, high=None):
    return {"median": median, "low": low or median, "high": high or median}


def row(p50, ratio=1):
    return {"figures": {"p50": figure(p50, p50 - 1, p50 + 1)}, "ratios": {"p50": figure(ratio)}, "quantiles": []}


def lines(found):
    return markdown.measure_lines("pair-16", found, LOCKERS, {"gone": "no java"}, lambda *_: None)


def test_table_has_spreads_and_ratios_or_the_reason_for_no_figures():
    found = {"ours": row(20), "rival": row(50, 2.5), "disk": row(900, 45), "bare": {"failed": "out of memory"}}
    text = "\n".join(lines(found))
    assert "### Uncontended acquire and release, clients: 16" in text
    assert "| **Ours** | 20.0 (19.0–21.0) |" in text
    assert "| Rival | 50.0 (49.0–51.0) **×2.50** |" in text
    assert "| Disk ᶠ |" in text
    assert "| Gone | not run: no java |" in text
    assert "| Bare | failed: out of memory |" in text


@pytest.mark.parametrize(
    ("ours", "rival", "verdict"),
    [
        (20, 50, "First in p50 µs, or within 5 % of it: Ours."),
        (52, 50, "First in p50 µs, or within 5 % of it: Ours."),
        (100, 50, "First in p50 µs: Rival. **Ours lose here**: Ours by 2.00 times."),
    ],
)
def test_a_row_in_which_we_are_not_first_says_so(ours, rival, verdict):
    assert verdict in lines({"ours": row(ours), "rival": row(rival)})


def test_labels_name_the_lock_that_is_measured():
    plain = SimpleNamespace(name="ours", label="LOCK.ACQUIRE, Jedis", ours=True, durable=False)
    assert markdown.label_of(plain, "semaphore") == "LOCK.SEMAPHORE, Jedis"
    assert markdown.label_of(plain, "pair-16") == "LOCK.ACQUIRE, Jedis"


def test_links_of_the_prose_point_to_the_same_places_from_the_page():
    text = "[costs](../../docs/costs.md) [bench](../README.md#files) [web](https://example.org) [here](#goals)"
    moved = "[costs](costs.md) [bench](../bench/README.md#files) [web](https://example.org) [here](#goals)"
    assert markdown.moved(text) == moved


def test_more_is_better_for_throughput():
    found = {
        "ours": {"figures": {"a_second": figure(100)}, "ratios": {}},
        "rival": {"figures": {"a_second": figure(1000)}, "ratios": {}},
    }
    assert "Ours by 10.0 times" in markdown.verdict("hot-1", found, LOCKERS)[0]


def test_measure_lists_who_does_not_offer_it_and_who_never_finished():
    found = {"ours": {"figures": {"ms": figure(5)}, "ratios": {}}, "rival": {"figures": {}, "ratios": {}}}
    text = "\n".join(markdown.measure_lines("killed", found, LOCKERS, {"gone": "no java"}, lambda *_: "no queue"))
    assert "| Rival | never, while it was watched |" in text
    assert "\nNo queue: Disk; Bare.\n" in text


def test_goals_compare_with_the_best_rival_that_uses_the_same_client():
    def of(**fields):
        return {"figures": {name: figure(value) for name, value in fields.items()}}

    lockers = [
        locker("jedis", ours=True, beside="jedis"),
        locker("python", ours=True, beside="python"),
        locker("redisson", beside="jedis"),
        locker("redis-py", beside="python"),
    ]
    summary = {
        "handoff-16": {
            "jedis": of(p50=100, p99=200, commands=2.0),
            "python": of(p50=20, p99=20, commands=3.0),
            "redisson": of(p50=1000, p99=1700),
            "redis-py": of(p50=90000, p99=1500),
        },
        "turns-1": {"jedis": of(p50=100, p50_ratio=1.03)},
        "crowd": {"jedis": of(commands_a_minute=0)},
    }
    verdicts = {text: (ratio, verdict) for text, _, ratio, verdict in markdown.goals(summary, lockers)}
    assert verdicts == {
        "hand-off p50, 16 waiting: Jedis / the best library's, Redisson": ("0.1", "met"),
        "hand-off p99, 16 waiting: Python / the best library's, Redis-Py": ("0.0133", "met"),
        "uncontended p50, clients: 1: Jedis / SET NX + DEL by the same client": ("1.03", "met"),
        "commands for a hand-off, 16 waiting: Jedis": ("2", "met"),
        "commands for a hand-off, 16 waiting: Python": ("3", "**missed**"),
        "commands a minute of those that wait: Jedis": ("0", "met"),
    }


COSTS = model.Costs(pair_us=20, handoff_us=10, held_bytes=200, waiter_bytes=50_000)
NODE = model.Node(memory_bytes=1_000_000_000, clients=10_000, busy=0.5)


def test_capacity_of_a_node_is_half_a_core_and_grows_with_nodes():
    one, many = model.capacity(COSTS, NODE), model.capacity(COSTS, NODE, 100)
    assert one["pairs_a_second"] == 25_000 and one["handoffs_a_second"] == 50_000
    assert one["held"] == 5_000_000 and one["waiters_by_memory"] == 20_000
    assert {name: many[name] / one[name] for name in one} == dict.fromkeys(one, 100)


@pytest.mark.parametrize(
    ("every_s", "clients", "wall"),
    [
        (0.1, 10_000, (model.LOOP, 5000)),
        (10, 10_000, (model.CONNECTIONS, 10_000)),
        (10, 50_000, (model.MEMORY, 20_000)),
    ],
)
def test_the_first_limit_is_the_lowest(every_s, clients, wall):
    node = model.Node(memory_bytes=NODE.memory_bytes, clients=clients, busy=0.5)
    assert model.first_wall(COSTS, node, every_s) == wall


def test_one_lock_is_limited_by_handoff_time_and_hold_time():
    assert model.one_lock(COSTS, 100, 900) == 1000
    assert model.one_lock(COSTS, 1, 0) == 100_000


def test_the_check_compares_several_nodes_with_one():
    assert model.steady({1: 20, 3: 22}) == {1: 1, 3: 1.1}


def test_costs_are_computed_only_from_a_run_that_has_them_all():
    def of(field, value):
        return {"goredis": {"figures": {field: figure(value)}}}

    summary = {
        "pair-16": of("cpu_us", 20),
        "hot-1": of("cpu_us", 10),
        "held": of("counted_bytes", 200),
        "crowd": of("counted_bytes", 50_000),
    }
    assert model.costs_from(summary) == COSTS
    del summary["held"]
    assert model.costs_from(summary) is None


def test_the_page_on_scale_names_the_limits_and_the_check():
    about = {"options": {"quick": False}}
    rounds = {f"{n}": [{"cpu_us": 20 + n + more, "a_second": 1000} for more in (-1, 0, 2)] for n in (1, 2)}
    scale = {"measured": {"pair": rounds, "hot": rounds}, "about": {"machine": {"cpus": 2}}}
    simulated = {"nodes": 3, "skew": 0.5, "asks_a_second": 90_000, "loop": 0.351, "busiest": 0.4, "contended": 0.02,
                 "p50": 110, "p99": 1500, "asks": 100, "locks": 10, "hold_us": 1000, "trip_us": 100}  # fmt: skip
    text = scalepage.page({"locks": {"about": about}, "scale": scale}, {}, COSTS, [simulated])
    assert "| 3 | 1 / n^0.5 | 90,000 | 35% | 40% | 2.0% | 110 | 1,500 |" in text
    assert "| 0.01 s | 700: the event loop | 700: the event loop |" in text
    assert "| 60 s | 10,000: connections | 100,000: connections |" in text
    assert "| uncontended, 64 clients | 2 | 22.0 | 1.05 | 1,000 |" in text


def test_the_data_file_is_readable_and_has_what_was_stored(tmp_path):
    file = tmp_path / "data.json"
    rounds = [{"p50": 1.23456789, "quantiles": (1, 2)}, {"failed": "a, [b]"}]
    data.store("locks", {"measured": {"pair-1": {"ours": rounds}}, "about": {"left_out": {}}}, file)
    data.store("delay", {"about": {"load": (1, 2)}}, file)
    kept = [{"p50": 1.23457, "quantiles": [1, 2]}, {"failed": "a, [b]"}]
    assert data.load(file) == {
        "locks": {"measured": {"pair-1": {"ours": kept}}, "about": {"left_out": {}}},
        "delay": {"about": {"load": [1, 2]}},
    }
    assert f'    "ours": {json.dumps(kept)}' in file.read_text().splitlines()


def test_a_measurement_changes_its_own_line_of_the_data_file():
    def text(*names, p50=1):
        rounds = {name: [{"p50": p50 if name == "b" else 1}, {"p50": 2}] for name in names}
        return data.as_text({"locks": {"measured": {"pair-1": rounds, "hot-1": rounds}}}).splitlines()

    before, after = text("a", "b", "c"), text("c", "b", "a", p50=3)
    assert [line.partition(":")[0].strip() for line, other in zip(before, after) if line != other] == ['"b"', '"b"']
    assert len(before) == len(after)
