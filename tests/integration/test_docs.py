"""The documents say what the tree holds."""
import glob
import os
import re

import pytest

from harness.stack import ROOT

PAGES = sorted(glob.glob(ROOT + "/*.md") + glob.glob(ROOT + "/docs/**/*.md", recursive=True))


def read(path):
    return open(os.path.join(ROOT, path), encoding="utf-8").read()


def test_the_architecture_page_shows_the_example_daemon_word_for_word():
    assert "```c\n" + read("examples/urr-hello.c") + "```" in read("docs/architecture.md")
    assert len(read("examples/urr-hello.c").splitlines()) <= 45


@pytest.mark.parametrize("page", PAGES, ids=[os.path.relpath(page, ROOT) for page in PAGES])
def test_files_that_a_page_names_exist(page):
    text = re.sub(r"```.*?```", "", read(page), flags=re.S)
    named = re.findall(r"`((?:[a-z0-9_-]+/)+[A-Za-z0-9_.-]+\.(?:c|h|sql|md|yaml|py|lua|txt))`", text)
    named = [name for name in named if not re.search(r"/(test_)?x\.[ch]$", name)]  # any module
    folders = (ROOT, os.path.dirname(page), ROOT + "/docs")
    missing = [name for name in named if not any(os.path.exists(os.path.join(f, name)) for f in folders)]
    links = [link for link in re.findall(r"\]\(([^)#:]+)\)", text)
             if not os.path.exists(os.path.join(os.path.dirname(page), link))]
    assert not missing + links


def test_the_readme_has_exactly_two_set_up_commands():
    section = read("README.md").split("## Two commands")[1].split("##")[0]
    block = re.search(r"```sh\n(.*?)```", section, re.S).group(1)
    assert [line.split()[0] for line in block.splitlines()] == ["compose/up", "tests/run"]
