"""The server's configuration file."""

# What tests need, unless they set something else.
DEFAULTS = {
    "bind": "127.0.0.1",
    "save": "",
    # With either value the file is written before the reply is sent. everysec would postpone a write
    # while an fsync runs, so that a SIGKILL would lose commands now and then that have been replied to.
    "appendfsync": "no",
    "enable-debug-command": "yes",
    "enable-module-command": "yes",
    "repl-diskless-sync-delay": "0",
    # A crash is reported at once; half a minute of memory testing would tell nothing more.
    "crash-memcheck-enabled": "no",
}


def option_name(keyword):
    """appendonly -> appendonly, repl_timeout -> repl-timeout, lock_default_lease -> lock.default-lease"""
    name = keyword.replace("_", "-")
    return "lock." + name.removeprefix("lock-") if name.startswith("lock-") else name


def _quoted(value):
    return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'


def write_conf(path, port, module, module_args, config):
    options = {**DEFAULTS, "port": port, "dir": path.parent, **config}
    lines = []
    for name, value in options.items():
        # A list is several words (replicaof); any other value is one word, which may be empty (save).
        words = value if isinstance(value, (list, tuple)) else [value]
        lines.append(" ".join([name, *map(_quoted, words)]))
    if module is not None:
        lines.append(" ".join(["loadmodule", str(module), *map(str, module_args)]))
    path.write_text("\n".join(lines) + "\n")
