"""TLS: the authority and the host of a certificate are verified; client certificates."""

import subprocess

import pytest

from harness import ServerDied, scaled
from harness.ports import free_port
from runs import LOST, UNAVAILABLE, USAGE, wait_watched


class Authority:
    """A certificate authority, and the certificates that it has signed: NAME.crt and NAME.key."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()
        self._openssl("req", "-x509", *self._new("ca"), "-subj", "/CN=authority", "-days", "2")

    def _openssl(self, *words):
        done = subprocess.run(["openssl", *map(str, words)], capture_output=True, text=True, timeout=scaled(60))
        assert done.returncode == 0, done.stderr

    def _new(self, name):
        curve = "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"
        return *curve, "-nodes", "-keyout", self.folder / f"{name}.key", "-out", self.folder / f"{name}.crt"

    def sign(self, name, alternatives):
        signed = "-CA", self.folder / "ca.crt", "-CAkey", self.folder / "ca.key", "-days", "2"
        names = "-addext", f"subjectAltName={alternatives}"
        self._openssl("req", "-x509", *self._new(name), "-subj", f"/CN={name}", *signed, *names)
        return name

    def __getattr__(self, name):
        """The path of a file: ca_crt is that of ca.crt."""
        path = self.folder / name.replace("_", ".")
        if not path.exists():
            raise AttributeError(name)
        return path


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    made = Authority(tmp_path_factory.mktemp("tls") / "ours")
    made.sign("here", "IP:127.0.0.1,DNS:localhost,DNS:locks.example")
    made.sign("elsewhere", "IP:127.0.0.2,DNS:elsewhere.example")
    made.sign("client", "DNS:client.example")
    return made


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    made = Authority(tmp_path_factory.mktemp("tls") / "theirs")
    made.sign("client", "DNS:client.example")
    return made


@pytest.fixture
def serve(make_server, authority):
    """serve("here"): a server with that certificate, and its TLS port."""

    def start(name, clients="no"):
        options = dict(
            tls_cert_file=authority.folder / f"{name}.crt",
            tls_key_file=authority.folder / f"{name}.key",
            tls_ca_cert_file=authority.folder / "ca.crt",
            tls_auth_clients=clients,
        )
        for tries_left in reversed(range(5)):
            port = free_port()
            try:
                return make_server(tls_port=port, **options), port
            except ServerDied:
                if not tries_left:
                    raise  # otherwise another process may have taken the port

    return start


def works(run, url):
    done = run(url, "--timeout", scaled(5), "k", "sh", "-c", "exit 9")
    assert (done.wait(), done.stderr) == (9, "")


def is_refused(run, url, tmp_path, why):
    refused = run(url, "--timeout", scaled(0.5), "k", "touch", tmp_path / "started")
    assert refused.wait() == UNAVAILABLE
    assert why in refused.stderr
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
@pytest.mark.parametrize("scheme, more", [("rediss", ""), ("valkeys", ""), ("redis", "&tls=yes")])
def test_the_right_authority(serve, authority, run, scheme, more, host):
    _, port = serve("here")
    works(run, f"{scheme}://{host}:{port}?cacert={authority.ca_crt}{more}")


def test_another_authority(serve, stranger, run, tmp_path):
    _, port = serve("here")
    is_refused(run, f"rediss://127.0.0.1:{port}?cacert={stranger.ca_crt}", tmp_path, "certificate")


def test_an_authority_that_the_machine_does_not_know(serve, run, tmp_path):
    _, port = serve("here")
    is_refused(run, f"rediss://127.0.0.1:{port}", tmp_path, "certificate")


def test_another_host(serve, authority, run, tmp_path):
    _, port = serve("elsewhere")
    is_refused(run, f"rediss://127.0.0.1:{port}?cacert={authority.ca_crt}", tmp_path, "mismatch")
    is_refused(run, f"rediss://localhost:{port}?cacert={authority.ca_crt}", tmp_path, "mismatch")


def test_the_name_that_it_is_to_have(serve, authority, run, tmp_path):
    _, port = serve("elsewhere")
    works(run, f"rediss://127.0.0.1:{port}?cacert={authority.ca_crt}&sni=elsewhere.example")
    is_refused(run, f"rediss://127.0.0.1:{port}?cacert={authority.ca_crt}&sni=here.example", tmp_path, "mismatch")


def test_unverified_only_if_that_is_asked_for(serve, run):
    _, port = serve("elsewhere")
    works(run, f"rediss://127.0.0.1:{port}?verify=no")


def test_a_client_certificate(serve, authority, run):
    _, port = serve("here", clients="yes")
    ours = f"cacert={authority.ca_crt}&cert={authority.client_crt}&key={authority.client_key}"
    works(run, f"rediss://127.0.0.1:{port}?{ours}")


def test_no_client_certificate_or_a_strangers(serve, authority, stranger, run, tmp_path):
    _, port = serve("here", clients="yes")
    is_refused(run, f"rediss://127.0.0.1:{port}?cacert={authority.ca_crt}", tmp_path, "lockctl: k: ")
    theirs = f"cacert={authority.ca_crt}&cert={stranger.client_crt}&key={stranger.client_key}"
    is_refused(run, f"rediss://127.0.0.1:{port}?{theirs}", tmp_path, "lockctl: k: ")


def test_a_key_that_does_not_fit(serve, authority, run):
    _, port = serve("here", clients="yes")
    wrong = f"cacert={authority.ca_crt}&cert={authority.client_crt}&key={authority.here_key}"
    refused = run(f"rediss://127.0.0.1:{port}?{wrong}", "k", "true")
    assert refused.wait() == USAGE
    assert "TLS" in refused.stderr


def test_tls_where_there_is_none(server, authority, run, tmp_path):
    is_refused(run, f"rediss://127.0.0.1:{server.port}?cacert={authority.ca_crt}", tmp_path, "lockctl: k: ")


def test_no_tls_where_there_is_nothing_else(serve, run, tmp_path):
    _, port = serve("here")
    is_refused(run, f"redis://127.0.0.1:{port}", tmp_path, "lockctl: k: ")


def test_a_loss_is_heard(serve, authority, run, witness):
    server, port = serve("here")
    command = witness()
    held = run(f"rediss://127.0.0.1:{port}?cacert={authority.ca_crt}", "k", *command.words)
    command.wait_begun()
    wait_watched(server, "k")
    server.control.execute_command("LOCK.FORCE", "k")
    assert held.wait() == LOST


def test_another_connection_is_opened_by_tls_too(serve, authority, run, witness):
    server, port = serve("here")
    command = witness()
    held = run(f"rediss://127.0.0.1:{port}?cacert={authority.ca_crt}", "--lease", scaled(60), "k", *command.words)
    command.wait_begun()
    server.control.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    wait_watched(server, "k")
    command.finish(9)
    assert (held.wait(), held.stderr) == (9, "")
