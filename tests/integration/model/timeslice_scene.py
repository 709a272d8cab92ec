"""Many clients that wait for one event are notified in time slices, between which the server serves others."""

import select

from harness import failpoint
from harness.iothreads import has_io_threads


def check_notified_in_time_slices(server, sockets, *event):
    """Before the third slice of the drain after `event` some clients have their reply, and most have none."""
    failpoint.arm(server, "drain.begun", "stop", 3)
    server.actor().send(*event)
    with failpoint.stopped(server):
        notified = [sock for sock in sockets if select.select([sock], [], [], 0)[0]]
    assert len(notified) < len(sockets) / 2
    # The I/O threads are stopped with the server, perhaps before they have written a reply.
    assert notified or has_io_threads(server.launch)
