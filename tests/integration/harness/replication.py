"""Masters and replicas."""

import re

from .waiting import wait_for


def listed(server):
    """What INFO reports of each replica that the server lists; it does not list all that are connected."""
    info = server.control.info("replication")
    return [replica for field, replica in info.items() if re.fullmatch(r"slave\d+", field)]


def wait_for_sync(master, replica, timeout=20.0):
    """Waits until the replica has applied all that the master has sent, and the master lists the replica as online.

    A replica that has its data is in sync a moment before the master reports it: the master waits for the next
    message of the replica.
    """
    port = int(replica.config.get("replica-announce-port", replica.port))

    def in_sync():
        of_replica = replica.control.info("replication")
        of_master = master.control.info("replication")
        assert of_replica["role"] == "slave", "it is no replica"
        assert of_replica["master_link_status"] == "up", "the link is down"
        assert of_replica["master_sync_in_progress"] == 0, "the first sync is running"
        sent, applied = of_master["master_repl_offset"], of_replica["slave_repl_offset"]
        assert sent == applied, f"the master is at {sent}, the replica at {applied}"
        states = {entry["state"] for entry in listed(master) if entry["port"] == port}
        assert states == {"online"}, f"the master reports its state as {states}"
        return True

    wait_for(in_sync, timeout, f"replica :{replica.port} to catch up with :{master.port}")
