"""Chromium without a window, driven over its DevTools protocol through a pair of pipes."""

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def find():
    """The path of a browser, or None."""
    return os.environ.get("RUSHLIGHT_CHROMIUM") or next(
        filter(None, map(shutil.which, NAMES)), None
    )


def find_axe():
    """The path of axe-core's script (``npm pack axe-core``), or None."""
    given = os.environ.get("RUSHLIGHT_AXE")
    return given if given and os.path.exists(given) else None


class Browser:
    """One browser with one tab."""

    def __init__(self):
        self._profile = tempfile.TemporaryDirectory(prefix="rushlight-browser-")
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()

        def pipes():  # the protocol is spoken on descriptors 3 and 4
            first, second = os.dup(to_browser), os.dup(from_browser)
            os.dup2(first, 3)
            os.dup2(second, 4)

        self._process = subprocess.Popen(
            [
                find(), "--headless=new", "--remote-debugging-pipe", "--no-sandbox",
                "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                "--no-first-run", "--disable-background-networking", "--disable-extensions",
                "--force-color-profile=srgb", "--font-render-hinting=none",
                f"--user-data-dir={self._profile.name}", "about:blank",
            ],
            preexec_fn=pipes, close_fds=False,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_browser)
        os.close(from_browser)
        self._numbers = itertools.count(1)
        self._rest = b""
        self._session = None
        self.problems = []  # console errors and exceptions
        self.requests = []  # addresses that were asked for
        target = next(
            t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page"
        )
        attached = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self):
        self._process.kill()
        self._process.wait()
        os.close(self._out)
        os.close(self._in)
        shutil.rmtree(self._profile.name, ignore_errors=True)
        self._profile.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def _receive(self, deadline):
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._in], [], [], max(0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError("the browser does not answer")
            got = os.read(self._in, 1 << 20)
            if not got:
                raise RuntimeError("the browser has ended")
            self._rest += got
        text, _, self._rest = self._rest.partition(b"\0")
        return json.loads(text)

    def call(self, method, timeout=60, **parameters):
        """One call of the protocol; events that come in between are noted."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + timeout
        while True:
            answer = self._receive(deadline)
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self._note(answer)

    def _note(self, event):
        kind, details = event.get("method"), event.get("params", {})
        if kind == "Runtime.exceptionThrown":
            thrown = details["exceptionDetails"]
            self.problems.append(thrown.get("exception", {}).get("description", thrown["text"]))
        elif kind == "Log.entryAdded" and details["entry"]["level"] in ("error", "warning"):
            self.problems.append(details["entry"]["text"])
        elif kind == "Runtime.consoleAPICalled" and details["type"] in ("error", "warning"):
            self.problems.append(str(details["args"]))
        elif kind == "Network.requestWillBeSent":
            self.requests.append(details["request"]["url"])

    def size(self, width, height=800, dark=False, scale=1):
        """The window's size, and the theme that the system asks for."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=scale, mobile=width < 600,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, path):
        """Opens a file, or an address, and waits until it has been painted."""
        self.problems, self.requests = [], []
        address = str(path) if "://" in str(path) else f"file://{os.path.abspath(path)}"
        self.call("Page.navigate", url=address)
        self.wait(f"location.href.startsWith({address!r}) && document.readyState === 'complete'")
        self.frames(2)

    def js(self, expression):
        """The value of an expression, a promise's included."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description", details["text"]))
        return answer["result"].get("value")

    def frames(self, count=1):
        """Waits for frames to be painted."""
        for _ in range(count):
            self.js("new Promise(done => requestAnimationFrame(() => setTimeout(done)))")

    def wait(self, condition, seconds=30):
        """Waits until an expression is true."""
        end = time.monotonic() + seconds
        while not self.js(condition):
            if time.monotonic() > end:
                raise TimeoutError(f"never true: {condition}")
            time.sleep(0.02)

    def mouse(self, kind, x, y, **more):
        """``mousePressed``, ``mouseReleased``, ``mouseMoved`` or ``mouseWheel``."""
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, selector):
        """Clicks the middle of an element."""
        box = self.js(
            f"(() => {{ const e = document.querySelector({selector!r}); e.scrollIntoView({{block:"
            "'center'}); const b = e.getBoundingClientRect(); return [b.x + b.width / 2, "
            "b.y + b.height / 2]; })()"
        )
        self.click_at(*box)

    def click_at(self, x, y):
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button="left", clickCount=1)
        self.frames(1)

    def key(self, name, text=None):
        """Presses a key: ``Tab``, ``Enter``, ``ArrowDown``, ``+``."""
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38,
                 "ArrowRight": 39, "ArrowDown": 40, "Home": 36, "End": 35}  # fmt: skip
        more = {"windowsVirtualKeyCode": codes[name]} if name in codes else {"text": text or name}
        if name == "Enter":
            more["text"] = "\r"
        self.call("Input.dispatchKeyEvent", type="keyDown", key=name, **more)
        more.pop("text", None)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=name, **more)
        self.frames(1)

    def screenshot(self, path, whole=False):
        """Writes what is seen, or the whole page, as PNG."""
        more = {}
        if whole:
            box = self.call("Page.getLayoutMetrics")["cssContentSize"]
            more = {"captureBeyondViewport": True, "clip": {**box, "scale": 1}}
        shot = self.call("Page.captureScreenshot", format="png", **more)
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def axe(self):
        """What axe-core finds of serious and critical accessibility faults."""
        with open(find_axe(), encoding="utf-8") as file:
            self.js(file.read() + "; 0")
        return self.js(
            "axe.run().then(r => r.violations.filter(v => ['serious', 'critical'].includes("
            "v.impact)).map(v => [v.id, v.help, v.nodes.slice(0, 3).map(n => n.html)]))"
        )
