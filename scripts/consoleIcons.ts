/**
 * Draws the icons of the installed console from its logo, `node scripts/consoleIcons.ts`: browsers on phones take no SVG. Run it after a change
 * of the logo, and commit the files.
 */
import { readFile, writeFile } from "node:fs/promises"
import { fileURLToPath } from "node:url"
import { chromium } from "playwright-core"

const folder = new URL("../src/console/", import.meta.url)

/** `share`: the logo's share of the width. A system may cut off everything outside a circle of 80 % of the width. */
const icons = [
  { name: "icon-192", size: 192, share: 1, background: "transparent" },
  { name: "icon-512", size: 512, share: 1, background: "transparent" },
  { name: "icon-maskable-512", size: 512, share: 0.8, background: "#2f4a9e" },
  { name: "icon-apple-180", size: 180, share: 0.9, background: "#2f4a9e" }
] as const

const logo = await readFile(new URL("logo.svg", folder), "utf8")
const browser = await chromium.launch({
  executablePath: process.env["COUNTERSIGN_TEST_BROWSER"] ?? "/usr/bin/chromium",
  args: ["--no-sandbox"]
})
const page = await browser.newPage()
for (const { background, name, share, size } of icons) {
  await page.setViewportSize({ width: size, height: size })
  await page.setContent(
    `<style>body { margin: 0; display: grid; place-items: center; height: ${size}px; background: ${background} }
      svg { width: ${size * share}px }</style>${logo}`
  )
  const png = await page.screenshot({ omitBackground: true })
  await writeFile(fileURLToPath(new URL(`icons/${name}.png`, folder)), png)
}
await browser.close()
