"""Another client that acquires and releases a lock all the time, on a connection of its own."""

import threading

from harness import Actor


class Churn:
    def __init__(self, server, take, give):
        self._actor = Actor(server, "churn")
        self._take, self._give = [*take, "BLOCK", 20000], give
        self.rounds, self._failed, self._over = 0, None, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        try:
            while not self._over.is_set():
                assert self._actor.call(*self._take, timeout=30) is not None, "it waited for 20 s"
                # In every second round the lock is free for a moment, and a request that arrives then is granted at once.
                self._actor.call(*self._give)
                if self.rounds % 2:
                    self._actor.call("PING")
                self.rounds += 1
        except Exception as error:
            self._failed = error

    def stop(self):
        self._over.set()
        self._thread.join()
        self._actor.close()
        assert self._failed is None, f"the churn client failed: {self._failed!r}"
