"""CLIENT TRACKING and LOCK.GUARD: keys that the inner command reads are tracked, if the server supports this."""

from model.guard_scene import hold


def test_key_that_the_inner_command_reads_is_tracked(server, actor):
    hold(server)
    listener, client, other = actor("listener"), actor("client"), actor("other")
    listener.call("SUBSCRIBE", "__redis__:invalidate")
    client.call("CLIENT", "TRACKING", "ON", "REDIRECT", listener.client_id)
    other.call("MSET", "x", 1, "y", 1)
    assert client.call("LOCK.GUARD", "k", "o", "GET", "x") == "1"
    assert client.call("GET", "y") == "1"
    expected = [["x"], ["y"]] if server.version >= (7, 2) else [["y"]]  # 7.0 does not track what a module calls
    # The key of the lock, which only LOCK.GUARD has read, is not tracked.
    for words in (("LOCK.RELEASE", "k", "o"), ("SET", "x", 2), ("SET", "y", 2)):
        other.call(*words)
    assert [listener.reply()[2] for _ in expected] == expected
    assert not listener.has_reply()
