"""LOCK.GUARD in tests: the owner o holds the lock k, and sends a command under its guard."""


def say(client, *commands):
    for command in commands:
        client.execute_command(*command.split())


def hold(server, *commands, db=0):
    say(server.client(db=db), *(commands or ("LOCK.ACQUIRE k o PX 600000",)))


def guard(client, *command, owner="o", key="k"):
    return client.execute_command("LOCK.GUARD", key, owner, *command)
