#!/usr/bin/env python3
"""The dashboard's page in a real browser: page.py URL-FILE WORK-DIRECTORY. Prints what was measured; pictures of the panels
go to the directory. The shell script beside it has started a cluster whose job has odd names, and ends a node when the
file `kill` appears."""
import json
import os
import sys
import time
import urllib.request

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

URL, WORK = open(sys.argv[1], encoding="ascii").read().strip(), sys.argv[2]
failures = 0


def expect(ok, what):
    global failures
    if not ok:
        failures += 1
        print("FAILED:", what)


def wait_for(what, f, limit=40):
    deadline = time.time() + limit
    while time.time() < deadline:
        try:
            if value := f():
                return value
        except Exception:  # the panel is drawn again each second: what was found is gone
            pass
        time.sleep(0.1)
    expect(False, f"waited {limit} s for {what}")
    return None


options = webdriver.ChromeOptions()
options.binary_location = "/usr/bin/chromium"
for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1600,1200",
             "--disable-extensions", f"--user-data-dir={WORK}/profile"):
    options.add_argument(word)
options.add_experimental_option("prefs", {"download.default_directory": WORK})
# Crash reports go below HOME whatever --user-data-dir says.
environment = os.environ | {"HOME": f"{WORK}/home", "XDG_CONFIG_HOME": f"{WORK}/home", "TMPDIR": WORK}
options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
driver = webdriver.Chrome(service=Service("/usr/bin/chromedriver", env=environment), options=options)
driver.set_page_load_timeout(60)


def text(selector="body"):
    return driver.execute_script("return document.querySelector(arguments[0]).innerText", selector)


def press(key):
    driver.find_element(By.TAG_NAME, "body").send_keys(key)


def fits_800_px(keys):
    driver.set_window_size(800, 1000)
    wait_for("room at 800 px", lambda: driver.execute_script("return innerWidth <= 800"))
    for key in keys:
        press(key)
        wide = driver.execute_script("""return document.documentElement.scrollWidth <= innerWidth ? null :
          [...document.querySelectorAll('#panel *')].filter(e => e.getBoundingClientRect().right > innerWidth).map(e => e.outerHTML.slice(0, 120))""")
        expect(wide is None, f"panel {key} fits 800 px: {wide}")


def picture(name):
    driver.save_screenshot(os.path.join(WORK, name + ".png"))


try:
    began = time.time()
    driver.get(URL)
    wait_for("the first state", lambda: "3 nodes up" in text("#panel"))
    print(f"page: to the first picture {time.time() - began:.2f} s")
    expect("token" not in driver.current_url, "the token leaves the address")
    size = driver.execute_script("return performance.getEntriesByType('resource').concat(performance.getEntriesByType('navigation'))"
                                 ".filter(e => !e.name.includes('/api/')).reduce((n, e) => n + e.transferSize, 0)")
    print(f"page: {size} bytes")
    expect(0 < size <= 200 * 1000, "the page is at most 200 KB")

    # Every panel has data, and each chart its table.
    wait_for("a sentence", lambda: driver.execute_script("return document.querySelector('[data-cause]') !== null"))
    wants = {"1": "Throughput (examples/s)", "2": "Round-trip time", "3": "Hottest keys", "4": "worker time by activity",
             "5": "Active runs", "6": "Decisions, newest first", "7": "Events, newest first", "8": "Latest log lines",
             "9": "waits for"}
    for key, word in wants.items():
        press(key)
        wait_for(f"panel {key}", lambda: word in text("#panel"))
        figures = driver.execute_script("return [...document.querySelectorAll('figure[data-chart] > svg')].map(s => !!s.parentNode.querySelector('details'))")
        expect(all(figures), f"charts of panel {key} have tables")
        picture(f"panel-{key}")
    press("1")
    driver.execute_script("document.querySelector('#panel details summary').click()")
    wait_for("a table that stays open", lambda: driver.execute_script("const d = document.querySelector('#panel details'); return d.open && d.childElementCount > 1"))

    # Looking inside: the stack of a worker and of an actor, all hottest keys of a table, by the buttons.
    def click(selector):
        return wait_for(selector, lambda: driver.execute_script("const b = document.querySelector(arguments[0]); if (b) b.click(); return b !== null", selector))
    press("4")
    click("button[aria-label^='stack of tour-1/']")
    wait_for("a stack of the worker", lambda: "job.lua:" in text("#stack"))
    picture("stack")
    press("9")
    press("/")
    driver.switch_to.active_element.send_keys("agent\n")
    wait_for("agents alone", lambda: "n1" in text("#panel") and "of" in text("#panel") and driver.execute_script("return document.querySelectorAll('#panel tbody tr').length") <= 4)
    click("button[aria-label^='stack of ']:not([aria-label*='tour'])")
    wait_for("a stack of an agent", lambda: "fiber" in text("#stack"))
    press("3")
    wait_for("tables", lambda: "all of" in text("#panel"))
    driver.execute_script("[...document.querySelectorAll('#panel button')].find(b => b.textContent.startsWith('all of')).click()")
    wait_for("the hottest keys", lambda: "hottest keys of" in text("#hottest"))

    # Curves, a scatter chart and the order of saved runs.
    press("5")
    wait_for("saved runs", lambda: driver.execute_script("const b = document.querySelector('#panel input[aria-label^=draw]'); if (b && !b.checked) b.click(); return b !== null"))
    wait_for("a curve", lambda: driver.execute_script("return document.querySelector('#curve svg path') !== null"))
    wait_for("the scatter chart", lambda: driver.execute_script("const b = [...document.querySelectorAll('#panel button')].find(b => b.textContent.startsWith('scatter')); if (b) b.click(); return document.querySelector('#scatter svg circle') !== null"))
    wait_for("an order", lambda: driver.execute_script("const b = [...document.querySelectorAll('button.sort')].find(b => b.textContent.startsWith('loss')); if (b) b.click(); return document.querySelector('th[aria-sort]') !== null"))
    picture("scatter")

    # What a policy decided is replayed: the recorded ones byte for byte.
    press("6")
    wait_for("the button", lambda: driver.execute_script("const b = document.getElementById('replay-go'); if (b) b.click(); return b !== null"))
    wait_for("a replay", lambda: "byte for byte" in text("#replayed") or None)
    driver.execute_script("const s = document.getElementById('replay-policy'); s.value = 'batching/equal'; s.dispatchEvent(new Event('change')); document.getElementById('replay-go').click()")
    wait_for("another policy's decisions", lambda: "open_loop" not in text("#replayed") and "batching/equal would propose" in text("#panel").replace("\n", " "))
    picture("replayed")

    # A trace, as a file that a reader of its format takes.
    press("8")
    driver.execute_script("document.getElementById('trace-go').click()")
    wait_for("a trace", lambda: "perfetto" in text("#recorded"))
    trace = wait_for("its file", lambda: json.load(open(os.path.join(WORK, "tide-trace.json"), encoding="utf-8")))
    named = {e["args"]["name"] for e in trace["traceEvents"] if e.get("name") == "process_name"}
    expect({"n1", "n2", "n3"} <= named and len(trace["traceEvents"]) > 100, f"the trace has all nodes: {named}")

    # Numbers are those of the cluster.
    state = driver.execute_script("return model.state")
    listed = json.load(open(os.path.join(WORK, "status.json"), encoding="utf-8"))
    expect({n["name"] for n in state["nodes"]} >= {n["name"] for n in listed["nodes"] if n["state"] == "up"}, "the same nodes as tide status")
    rows = {t["name"]: t["rows"] for t in state["tables"]}
    expect(all(rows.get(t["name"]) == t["rows"] for t in listed["tables"]), f"the same rows as tide status: {rows}")

    # Names are data.
    hostile = "<img src=x onerror=window.harm=1>"
    driver.execute_script("""const s = structuredClone(model.state), evil = arguments[0], long = "\\u202e" + "x".repeat(255);
      for (const n of s.nodes) n.name = evil; s.cluster = evil; s.problem = evil;
      for (const t of s.tables) { t.name = evil + long; for (const p of t.parts) p.node = evil; for (const h of t.hot) h.users = [evil]; }
      for (const r of s.runs) { r.name = evil; r.why = evil; r.directory = long; for (const w of r.workers) w.node = evil; for (const p of r.policies) p.policy = evil; }
      s.events.push({time: 1e9, kind: evil, node: evil, text: evil + long});
      s.slowest = [{run: evil, sentence: evil, remedy: evil, cause: evil, evidence: [evil], others: [{cause: evil, share: NaN}]}];
      window.real = take; take = () => {}; // nothing comes in between
      real('state', 1, JSON.stringify(s));""", hostile)
    for key in wants:
        press(key)
        expect(hostile in text(), f"panel {key} shows a hostile name as text")
        expect(driver.execute_script("return !window.harm && document.querySelectorAll('img').length === 0 && document.querySelectorAll('body script').length === 0"),
               f"panel {key} makes no element of a name")
    picture("hostile")
    fits_800_px(wants)
    driver.set_window_size(1600, 1200)
    driver.execute_script("take = window.real")

    # Light and dark, narrow, by keyboard.
    press("1")
    before = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    press("t")
    expect(before != driver.execute_script("return getComputedStyle(document.body).backgroundColor"), "t changes light and dark")
    picture("dark")
    fits_800_px(wants)
    picture("narrow")
    # A phone: 360 px, with 64 nodes and names that do not break.
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": 360, "height": 780, "deviceScaleFactor": 2, "mobile": True})
    driver.execute_script("""const s = structuredClone(model.state), base = s.nodes.find(n => n.up && !n.bare), names = [...Array(64)].map((_, i) => "worker-node-" + i);
      s.nodes = names.map((name, i) => ({...base, name, id: i, cpu: i / 64, links: names.filter((_, k) => k !== i && (i * 7 + k) % 3 === 0).map(peer => ({peer, up: true, sent: 1e6 * (i + 1), queue: 0, round_trip_s: 1e-4 * (i + 1)}))}));
      s.nodes.push({...base, name: "gone-1", up: false, left: true, state: "left", links: []});
      s.tables = s.tables.map(t => ({...t, parts: names.map((node, i) => ({node, rows: i * 10, near: i, far: 64 - i}))}));
      s.runs = s.runs.map(r => ({...r, name: "x".repeat(60)}));
      window.real = take; take = () => {}; real('state', 1, JSON.stringify(s));""")
    for key in wants:
        press(key)
        time.sleep(0.2)
        expect(driver.execute_script("return document.documentElement.scrollWidth") <= 360, f"panel {key} fits 360 px")
        picture(f"phone-{key}")
    press("2")
    expect("1 departed" in text("#panel") and "gone-1" not in text("#panel").split("departed")[0], "departed nodes are folded")
    expect(driver.execute_script("const s = document.querySelector('svg[tabindex]'); s.focus(); s.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight'})); return s.parentNode.querySelector('[role=status]').textContent").startswith("worker-node-0, worker-node-1:"), "arrow keys read cells of a map")
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": 1440, "height": 1000, "deviceScaleFactor": 1, "mobile": False})
    for shade in ("dark", "light"):
        for key in ("2", "3"):
            press(key)
            time.sleep(0.2)
            picture(f"many-{shade}-{key}")
        press("t")
    driver.execute_script("take = window.real")
    driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    driver.set_window_size(1600, 1200)
    press("1")
    driver.execute_script("document.querySelector('[role=tab][aria-selected=true]').focus()")
    driver.switch_to.active_element.send_keys("\ue014")  # right
    expect(driver.execute_script("return document.querySelector('[role=tab][aria-selected=true]').innerText") == "Nodes", "an arrow goes to the next panel")

    # Eight tabs: whichever is shown lives; a reload has no hole.
    first = driver.current_window_handle
    for _ in range(7):
        driver.execute_script("window.open(arguments[0])", URL)
    for handle in driver.window_handles:
        driver.switch_to.window(handle)
        seen = wait_for("a tab to live", lambda: driver.execute_script("return model.last") or None)
        wait_for("a tab to go on", lambda: driver.execute_script("return model.last") > seen)
    driver.switch_to.window(first)
    driver.refresh()
    wait_for("samples after a reload", lambda: driver.execute_script("return model.samples.length > 3"))
    expect(driver.execute_script("return model.samples.every((s, i, all) => i === 0 || s.t === null || all[i - 1].t === null || s.t - all[i - 1].t < 30)"), "no hole after a reload")
    for handle in driver.window_handles[1:]:
        driver.switch_to.window(handle)
        driver.close()
    driver.switch_to.window(first)

    # From the fact to the page: an event that the script makes.
    press("7")
    open(os.path.join(WORK, "event"), "w", encoding="ascii").close()
    wait_for("an event", lambda: "marked by the test" in text("#panel"))
    shown = time.time()
    times = driver.execute_script("return model.state.events.filter(e => e.text.includes('marked by the test')).map(e => e.time)")
    if times:
        print(f"page: an event is shown {shown - max(times):.2f} s after it happened")

    # A node that is killed is red; a cluster that is gone is said.
    press("2")
    open(os.path.join(WORK, "kill"), "w", encoding="ascii").close()
    wait_for("a red node", lambda: driver.execute_script("return document.querySelectorAll('tr.down').length > 0"), 60)
    picture("killed")
    open(os.path.join(WORK, "end"), "w", encoding="ascii").close()
    wait_for("the cluster's end", lambda: not driver.execute_script("return document.getElementById('problem').hidden"), 60)
    picture("lost")
    messages = [m for m in driver.get_log("browser") if m["level"] in ("SEVERE", "WARNING")
                and "/api/policy/" not in m["message"]]  # of a run that is over, or was given a hostile name here
    expect(not messages, f"the console has messages: {messages[:3]}")
finally:
    driver.quit()
print("failed" if failures else "ok: page")
sys.exit(failures > 0)
