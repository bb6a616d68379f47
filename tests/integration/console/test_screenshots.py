"""The pictures of the console in the documents: taken here, and held against what the pages look like now."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest

from tests.fixtures.browser import async_browser
from tests.fixtures.walked_run import RUN_ID
from tests.integration.console.conftest import Console
from tests.integration.console.every_page import fill
from tests.integration.console.fake_gateway import FakeGateway

DOCS = Path(__file__).parents[3] / "docs"
PICTURES = {"console.png": f"/runs/{RUN_ID}", "console-runs.png": "/runs"}
# Of the pixels: what another machine's letters and time zone may change.
MOST_DIFFERENT = 0.04
DIFFERENT = """async (pictures) => {
  const [old, now] = await Promise.all(pictures.map(async (each) => {
    const image = new Image();
    image.src = "data:image/png;base64," + each;
    await image.decode();
    const context = new OffscreenCanvas(image.width, image.height).getContext("2d");
    context.drawImage(image, 0, 0);
    return context.getImageData(0, 0, image.width, image.height).data;
  }));
  if (old.length !== now.length) return 1;
  let different = 0;
  for (let at = 0; at < old.length; at += 4) if (Math.abs(old[at] - now[at]) > 40) different += 1;
  return different * 4 / old.length;
}"""


@pytest.mark.browser
async def test_the_pictures_show_what_the_pages_look_like(console: Console, gateway: FakeGateway) -> None:
    """`SCREENSHOTS=1` takes them anew."""
    fill(gateway)
    async with async_browser() as browser:
        page = await browser.new_page(viewport={"width": 1180, "height": 860}, color_scheme="light", timezone_id="UTC")
        await page.goto(console.address)
        taken = {}
        for name, path in PICTURES.items():
            await page.goto(f"{console.base}{path}")
            taken[name] = await page.screenshot(animations="disabled")
        if os.environ.get("SCREENSHOTS"):
            for name, picture in taken.items():
                (DOCS / name).write_bytes(picture)
        await page.goto("about:blank")
        for name, picture in taken.items():
            both = [base64.b64encode(each).decode() for each in ((DOCS / name).read_bytes(), picture)]
            assert await page.evaluate(DIFFERENT, both) < MOST_DIFFERENT, f"docs/{name}: take it anew"
