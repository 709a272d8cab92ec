"""The values that redis_exporter shows, with docs/monitoring/lock.lua and the permissions of the page."""

import re

import pytest
from redis.exceptions import ResponseError

import scene as scene_module
from harness import wait_for
from programs import DOCS, PAGE, create_user

SCRIPT = (DOCS / "lock.lua").read_text()


def run_script(client):
    """What the script returns when it is run as the exporter runs it."""
    reply = client.execute_command("EVAL", SCRIPT, 0, 0)
    return dict(zip(reply[::2], reply[1::2], strict=True))


def test_every_field_is_shown_with_its_value(scene):
    info, shown = scene.server.info("lock"), scene.exporter.script_values()
    assert shown.pop("maxclients") == scene.server.info("clients")["maxclients"]
    assert 0 < shown.pop("lock_quarantine_ms") <= info.pop("lock_quarantine_ms")
    assert shown == info
    assert {name: shown[name] for name in scene_module.COUNTED} == scene_module.COUNTED
    assert shown["lock_wait_ms_total"] >= shown["lock_wait_ms_max"] >= shown["lock_wait_ms_p50"] > 0


def test_the_server_is_up_for_an_exporter_with_few_permissions(scene):
    text = scene.exporter.scrape()
    assert "redis_up 1" in text
    assert 'redis_exporter_last_scrape_error{err=""} 0' in text


def test_the_user_has_few_permissions(scene):
    client = scene.server.client(username="exporter", password="password")
    for words in ("GET k", "SET k v", "LOCK.ACQUIRE k o", "LOCK.INFO k", "LOCK.TOP", "CONFIG GET *", "KEYS *", "FLUSHALL"):
        with pytest.raises(ResponseError, match="no permissions"):
            client.execute_command(*words.split())
        with pytest.raises(ResponseError, match="permissions|can't run this command|not allowed from script"):
            quoted = ", ".join(f"'{word}'" for word in words.split())
            client.execute_command("EVAL", f"return redis.call({quoted})", 0)


def test_every_metric_that_the_page_names_exists(scene):
    named = set(re.findall(r"\b(?:lock|redis)_[a-z0-9_]+\b", PAGE)) - {"redis_exporter"}
    text = scene.naming.scrape()
    shown = set(re.findall(r"^[a-z0-9_]+", text, re.M)) | set(re.findall(r'key="([a-z0-9_]+)', text))
    assert named - shown == set()
    # So the page names nothing that only a newer exporter shows. And the patterns do find names:
    assert {"lock_waiters", "redis_script_values", "redis_up"} <= named


def test_names_are_shown_only_if_configured(scene):
    assert not [key for key in scene.exporter.script_values() if key.startswith("lock_top")]
    # Its waiters continue to wait, so it becomes one of the ten.
    wait_for(lambda: "lock_top_usec:0:busy" in scene.naming.script_values(), what="the name")
    shown = scene.naming.script_values()
    assert shown["lock_top_waiters:0:busy"] == 3
    assert shown["lock_top_waiters:0:report"] == 0
    assert shown["lock_top_usec:0:report"] >= 200_000
    assert len([key for key in shown if key.startswith("lock_top_usec:")]) <= 10


def test_any_name_can_be_shown(make_server, make_exporter, naming_script):
    server = make_server()
    create_user(server, "naming", "+eval", "+lock.top")
    a, b = server.actor(), server.actor()
    for name in (b'q"\\:{}', b"\xff\x00\n", b"\xfe\x00\n", b"long" * 100):
        a.call("LOCK.ACQUIRE", name, "alice")
        assert b.call("LOCK.ACQUIRE", name, "bob", "BLOCK", 5) is None
    shown = make_exporter(server, naming_script, "naming").script_values()
    names = {key.partition(":0:")[2] for key in shown if key.startswith("lock_top_usec")}
    assert names == {'q"\\:{}', "???", "long" * 25}
    # Names that look the same are added up.
    top = server.client(protocol=3, decode_responses=False).execute_command("LOCK.TOP")
    usec = {lock[b"lock"]: lock[b"usec"] for lock in top}
    assert shown["lock_top_usec:0:???"] == usec[b"\xff\x00\n"] + usec[b"\xfe\x00\n"]


def test_without_the_permission_for_names_there_are_no_values(make_server, make_exporter, naming_script):
    """This causes an alert: redis_up is 0, and there is no lock_ value."""
    server = make_server()
    create_user(server, "exporter", "+eval")
    text = make_exporter(server, naming_script).scrape()
    assert "redis_up 0" in text
    assert "lock_waiters" not in text


def test_the_script_runs_while_writes_are_paused(make_server):
    server = make_server()
    server.control.execute_command("CLIENT", "PAUSE", 60_000, "WRITE")
    assert run_script(server.client(socket_timeout=5))["lock_waiters"] == "0"


def test_the_script_runs_on_a_replica_without_its_master(make_server):
    replica = make_server(replica_serve_stale_data="no")
    replica.control.execute_command("REPLICAOF", "127.0.0.1", 1)
    wait_for(lambda: replica.info("replication")["role"] == "slave", what="a replica")
    assert run_script(replica.control)["lock_waiters"] == "0"


def test_the_script_runs_on_a_node_of_a_cluster(make_server):
    assert run_script(make_server(cluster_enabled="yes").control)["lock_waiters"] == "0"


def test_a_server_without_the_module_has_no_lock_values(make_server):
    assert set(run_script(make_server(load_module=False).control)) == {"maxclients"}


def test_the_exporter_without_a_script_has_no_lock_values(scene):
    """If a newer one has them, the page has to say so."""
    text = scene.bare.scrape()
    assert "redis_up 1" in text
    assert "lock_waiters" not in text
