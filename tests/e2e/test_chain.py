"""The browser tests' own ground: Chromium, playwright-core and the harness work together."""
import functools
import http.server
import os
import subprocess
import threading

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))


@pytest.fixture
def browse():
    """browse("chain.mjs", url, URR_EXPECT="…"): runs one script in a browser; its output on failure."""
    def run(script, url, timeout=90, **settings):
        done = subprocess.run(["node", os.path.join(HERE, script)], capture_output=True, text=True,
                              timeout=timeout, stdin=subprocess.DEVNULL,
                              env={**os.environ, "URR_URL": url, **settings})
        assert done.returncode == 0, f"{script} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
    return run


@pytest.fixture
def page_server(tmp_path):
    (tmp_path / "index.html").write_text("<title>t</title><body><script>document.body.append('from a script')"
                                         "</script></body>")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=tmp_path)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()


def test_a_page_and_its_script_run(browse, page_server):
    browse("chain.mjs", page_server, URR_EXPECT="from a script")


def test_a_wrong_page_is_noticed(browse, page_server):
    with pytest.raises(AssertionError):
        browse("chain.mjs", page_server, URR_EXPECT="something else")
