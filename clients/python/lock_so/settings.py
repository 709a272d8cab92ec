"""The settings of a user's client, for connections of our own: never its connections."""

import redis.exceptions as library


def own_settings(settings, retry, timeout):
    """Settings of a connection that sends nothing again, and that nobody else looks after. `timeout`: s, or None."""
    kept = {name: value for name, value in settings.items() if "maint_notifications" not in name}
    times = {"socket_timeout": timeout, "socket_connect_timeout": timeout, "health_check_interval": 0}
    return {**kept, **times, "retry": retry, "retry_on_error": [], "retry_on_timeout": False}


def asked_elsewhere(error):
    """(host, port) if the key is on its way to another node: that is to be asked once."""
    return (error.host, error.port) if isinstance(error, library.AskError) else None
