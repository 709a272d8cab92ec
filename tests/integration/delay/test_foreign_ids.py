"""The empty id, which only another client can write: in the hash this field has the list's name."""

from harness import wait_for


def test_empty_id_is_never_delivered(server):
    control = server.control
    assert control.execute_command("DELAY.PUSH", "{x}", "a", 3_600_000, "later") == "a"
    control.zadd("delay:due:{x}", {"": 1})
    assert control.execute_command("DELAY.LIST", "{x}")[0][::2] == ["", None]
    control.execute_command("DELAY.PUSH", "{x}", "b", 0, "now")
    wait_for(lambda: control.lrange("{x}", 0, -1) == ["now"], what="the delivery")
    assert control.execute_command("DELAY.CANCEL", "{x}", "") == 1
    assert control.hgetall("delay:value:{x}") == {"": "{x}", "a": "later"}
    assert control.exists("x") == 0
