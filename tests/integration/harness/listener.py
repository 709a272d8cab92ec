"""What a server publishes: keyspace events, and messages of the module's own."""


class Listener:
    """Hears all that is published on a server, in order."""

    def __init__(self, server, master=None):
        self._publisher, self._actor = master or server, server.actor("listener")
        self._actor.call("PSUBSCRIBE", "*")

    def heard(self):
        """[(channel, message), …] since the last time."""
        self._publisher.control.publish("end", "")
        said = iter(self._actor.reply, ["pmessage", "*", "end", ""])
        return [(channel, message) for _, _, channel, message in said]


def listen_for_events(server, classes):
    server.control.config_set("notify-keyspace-events", classes)
    return Listener(server)
