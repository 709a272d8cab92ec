"""The Locks of an application: on the server of the setting `lock_so_url`, or on its broker."""

import threading
from typing import Any, Dict

import redis
from celery.exceptions import ImproperlyConfigured
from lock_so import Locks

_made: Dict[str, Locks] = {}
_making = threading.Lock()


def url_of(app: Any) -> str:
    return str(app.conf.get("lock_so_url") or app.conf.broker_write_url or app.conf.broker_url or "")


def locks_of(app: Any) -> Locks:
    """The same object each time, because it keeps connections; a child process has connections of its own."""
    url = url_of(app)
    if url not in _made and not url.startswith(("redis://", "rediss://", "unix://")):
        raise ImproperlyConfigured("the broker is not a single Redis: set lock_so_url to the server that has lock.so")
    with _making:
        if url not in _made:
            _made[url] = Locks(redis.Redis.from_url(url))
        return _made[url]
