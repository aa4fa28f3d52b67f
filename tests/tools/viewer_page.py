"""Opens a page in headless Chromium until it shows a frame: viewer_page.py URL PICTURE prints what it shows as JSON, and draws it."""

import asyncio
import base64
import json
import subprocess
import sys
import tempfile
import time
import urllib.request

from tornado.websocket import websocket_connect

url, picture = sys.argv[1:]


async def look(address):
    page = await websocket_connect(address, max_message_size=1 << 26)
    number = 0

    async def ask(method, **parameters):
        nonlocal number
        number += 1
        await page.write_message(json.dumps({"id": number, "method": method, "params": parameters}))
        while (answer := json.loads(await asyncio.wait_for(page.read_message(), 60))).get("id") != number:
            pass
        return answer["result"]

    async def value(expression):
        return (await ask("Runtime.evaluate", expression=expression))["result"].get("value")

    await ask("Page.navigate", url=url)
    until = time.monotonic() + 60
    while not await value("document.body && document.body.dataset.step") and time.monotonic() < until:
        await asyncio.sleep(0.2)
    shown = json.loads(await value("JSON.stringify(document.body.dataset)"))
    shown["state"] = await value("document.getElementById('state').textContent")
    shown["arrays"] = await value("[...document.querySelectorAll('#variables button')].map(b => b.textContent.split(' ')[0]).join()")
    # How many colours the picture of the values has.
    shown["colours"] = await value(
        "(() => { const c = document.getElementById('canvas'), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
        "return new Set(new Uint32Array(d.buffer)).size; })()"
    )
    # The other array, along other axes, of which the first step comes with the next output.
    await value("document.querySelectorAll('#variables button')[1].click()")
    await value("document.querySelector('#axes select').value = '0,1'; document.querySelector('#axes select').onchange()")
    while await value("document.body.dataset.variable") == shown["variable"] and time.monotonic() < until:
        await asyncio.sleep(0.2)
    shown["then"] = json.loads(await value("JSON.stringify(document.body.dataset)"))
    image = await ask("Page.captureScreenshot", format="png")
    with open(picture, "wb") as file:
        file.write(base64.b64decode(image["data"]))
    print(json.dumps(shown))


with tempfile.TemporaryDirectory() as folder:
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}", "--window-size=1100,760", "--remote-debugging-port=0", "about:blank"]
    browser = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        for line in browser.stderr:
            if "DevTools listening on" in line:
                port = line.rsplit(":", 1)[1].split("/")[0]
                break
        else:
            sys.exit("Chromium has ended")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json") as pages:
            address = next(page["webSocketDebuggerUrl"] for page in json.load(pages) if page["type"] == "page")
        asyncio.run(look(address))
    finally:
        browser.kill()
        browser.wait()
