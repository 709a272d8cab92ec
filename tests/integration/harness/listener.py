"""What a server publishes: keyspace events, and the module's own messages."""


class Listener:
    """Receives all that is published on a server, in order."""

    def __init__(self, server, master=None):
        self._publisher, self._actor = master or server, server.actor("listener")
        self._actor.call("PSUBSCRIBE", "*")

    def new_messages(self):
        """[(channel, message), …] since the last call."""
        self._publisher.control.publish("end", "")
        received = iter(self._actor.reply, ["pmessage", "*", "end", ""])
        return [(channel, message) for _, _, channel, message in received]


def listen_for_events(server, classes):
    server.control.config_set("notify-keyspace-events", classes)
    return Listener(server)
