#!/usr/bin/env python3
"""pictures.py URL-FILE TIDE CLUSTER DIRECTORY: what pictures.sh has started, as PNG files of few colours."""
import html
import io
import os
import sys
import tempfile
import time

from PIL import Image
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cluster"))
from console_screen import Person, PROMPT  # noqa: E402

URL, TIDE, CLUSTER, OUT = open(sys.argv[1], encoding="ascii").read().strip(), *sys.argv[2:5]
WIDTH, COLOURS, BYTES_MAX = 1000, 48, 60 << 10
STYLE = """body { margin: 0; background: #16191d; color: #d7dade; font: 14px/1.35 "DejaVu Sans Mono", monospace; }
pre { margin: 0; padding: 12px 16px; font: inherit; } b { color: #56b4e9; font-weight: normal; }"""
LINES = ("nodes()", "why()", "hist(tables.columns)", "@all #core.actors()", "policy.list()")


def keep(driver, name, height):
    """The upper part of the window, in few colours."""
    picture = Image.open(io.BytesIO(driver.get_screenshot_as_png())).convert("RGB")
    picture = picture.crop((0, 0, WIDTH, min(height, picture.height))).quantize(COLOURS, dither=Image.Dither.NONE)
    path = os.path.join(OUT, name + ".png")
    picture.save(path, optimize=True)
    size = os.path.getsize(path)
    print(f"{name}.png: {picture.width} x {picture.height}, {size} bytes")
    assert size <= BYTES_MAX, f"{path} is larger than {BYTES_MAX} bytes"


def wait_for(driver, script):
    end = time.time() + 40
    while not driver.execute_script("return " + script):
        assert time.time() < end, f"waited in vain for {script}"
        time.sleep(0.2)


def text_at(name, word):
    return f"(() => {{ const p = document.querySelector('{name}'); return p && p.innerText.includes('{word}'); }})()"


def dashboard(driver):
    driver.get(URL)
    wait_for(driver, "document.querySelector('[data-cause]') !== null")
    time.sleep(3)
    height = "return Math.ceil(document.querySelector('#panel').getBoundingClientRect().bottom) + 8"
    keep(driver, "dashboard", driver.execute_script(height))
    body = driver.find_element(By.TAG_NAME, "body")
    body.send_keys("6")
    wait_for(driver, text_at("#panel", "Decisions, newest first"))
    driver.execute_script("const s = document.getElementById('replay-policy'); s.value = 'batching/equal';"
                          "s.dispatchEvent(new Event('change')); document.getElementById('replay-go').click()")
    wait_for(driver, text_at("#panel", "would propose"))
    body.send_keys("t")
    time.sleep(1.5)
    keep(driver, "dashboard-policies", 860)
    body.send_keys("t")


def console(driver):
    person = Person(TIDE, CLUSTER, rows=46, columns=110)
    person.shows(PROMPT)
    for line in LINES:
        before = person.screen.cursor.y
        person.type(line + "\r")
        person.wait_until(lambda: person.screen.cursor.y > before + 1 or None, f"nothing came of {line}")
        person.shows(PROMPT)
        time.sleep(0.5)
    shown = person.lines()
    person.type("\x04")
    marked = "\n".join(f"<b>{html.escape(line)}</b>" if line.startswith(CLUSTER) and ">" in line else html.escape(line) for line in shown)
    with tempfile.NamedTemporaryFile("w", suffix=".html", encoding="utf-8") as page:
        page.write(f"<meta charset=utf-8><style>{STYLE}</style><pre>{marked}</pre>")
        page.flush()
        driver.get("file://" + page.name)
        keep(driver, "console", driver.execute_script("return Math.ceil(document.querySelector('pre').getBoundingClientRect().bottom)"))


def main():
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    with tempfile.TemporaryDirectory() as profile:
        for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--window-size={WIDTH},1200",
                     "--hide-scrollbars", f"--user-data-dir={profile}"):
            options.add_argument(word)
        # Crash reports go below HOME whatever --user-data-dir says.
        environment = os.environ | {"HOME": profile, "XDG_CONFIG_HOME": profile, "TMPDIR": profile}
        driver = webdriver.Chrome(service=Service("/usr/bin/chromedriver", env=environment), options=options)
        try:
            dashboard(driver)
            console(driver)
        finally:
            driver.quit()


main()
