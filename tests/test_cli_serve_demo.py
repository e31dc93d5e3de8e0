"""`vestige serve --demo`: the address is printed, a browser opens where there is a display, the store is removed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest


def wait_for(path: Path, process: subprocess.Popen[str]) -> str:
    end = time.monotonic() + 60
    while not (path.exists() and path.read_text()):
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.05)
    return path.read_text().strip()


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_demo_opens_a_browser_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: signal.Signals
) -> None:
    opened, browser = tmp_path / "opened", tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}\n')
    browser.chmod(0o755)
    (tmp_path / "vestige.toml").write_text('store = "production.db"\n')
    folder = tmp_path / "temporary"
    folder.mkdir()
    for name, value in {"DISPLAY": ":0", "BROWSER": str(browser), "TMPDIR": str(folder)}.items():
        monkeypatch.setenv(name, value)
    command = [sys.executable, "-m", "vestige", "serve", "--demo", "--port", "0"]
    with subprocess.Popen(command, cwd=tmp_path, env=os.environ, stdout=subprocess.PIPE, text=True) as process:
        try:
            url = wait_for(opened, process)
            assert httpx.get(f"{url}/health", timeout=30).json() == {"status": "ok", "demo": True}
            assert any(folder.iterdir())
            process.send_signal(end)
            printed = process.communicate(timeout=60)[0]
        finally:
            process.kill()
    assert f"replayed at {url}" in printed
    assert not list(folder.glob("vestige-demo-*"))
    assert not (tmp_path / "production.db").exists()


def test_no_store_is_asked_for_without_the_demo(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "vestige", "serve", "--open"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert "Missing argument 'STORE'" in done.stderr
