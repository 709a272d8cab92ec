"""Master and replica."""

import re

from .waiting import wait_for


def listed(server):
    """What INFO says of each replica that the server lists; not all that are connected are."""
    told = server.control.info("replication")
    return [replica for field, replica in told.items() if re.fullmatch(r"slave\d+", field)]


def wait_for_sync(master, replica, timeout=20.0):
    """Until the replica has applied all that the master has sent, and the master counts it among its own.

    A replica that has its data is in step a moment before its master, which waits for its next word, says so.
    """
    port = int(replica.config.get("replica-announce-port", replica.port))

    def in_step():
        theirs = replica.control.info("replication")
        ours = master.control.info("replication")
        assert theirs["role"] == "slave", "it is no replica"
        assert theirs["master_link_status"] == "up", "the link is down"
        assert theirs["master_sync_in_progress"] == 0, "the first sync is running"
        sent, applied = ours["master_repl_offset"], theirs["slave_repl_offset"]
        assert sent == applied, f"the master is at {sent}, the replica at {applied}"
        states = {told["state"] for told in listed(master) if told["port"] == port}
        assert states == {"online"}, f"the master says of it {states}"
        return True

    wait_for(in_step, timeout, f"replica :{replica.port} to catch up with :{master.port}")
