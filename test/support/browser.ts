import type { Vitest } from "@effect/vitest"
import axe from "axe-core"
import { Context, Effect, Layer, Redacted, type Scope } from "effect"
import { spawnSync } from "node:child_process"
import { existsSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { type Browser as Chromium, type BrowserContextOptions, chromium, type Page } from "playwright-core"
import type { NewApiKey } from "../../src/api/ApiKeys.ts"
import { Countersign } from "../../src/testing/index.ts"

/** Where a Chromium usually is. */
const candidates = [
  process.env["COUNTERSIGN_TEST_BROWSER"] ?? "",
  "/usr/bin/chromium",
  "/usr/bin/chromium-browser",
  "/usr/bin/google-chrome",
  "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
]

const executablePath = candidates.find((place) => place !== "" && existsSync(place))

/** Why pages cannot be tried here; undefined: they can. */
const skipReason: string | undefined =
  executablePath === undefined
    ? "the console's pages are not tried: there is no Chromium; install Debian's `chromium`, or name one in COUNTERSIGN_TEST_BROWSER"
    : undefined

if (skipReason !== undefined) process.stderr.write(`${skipReason}\n`)

/** `it.effect` where there is a browser; else the test is skipped, with the reason printed. */
export const skipWithoutBrowser = <R>(it: Vitest.MethodsNonLive<R>) =>
  it.effect.skipIf(skipReason !== undefined)

const flags = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-dev-shm-usage",
  "--no-first-run"
]

/** A browser of a test file's own, with the console's page built as a start builds it. */
export class Browser extends Context.Service<Browser, Chromium>()("countersign/test/Browser") {
  static readonly layer = Layer.effect(
    Browser,
    Effect.acquireRelease(
      Effect.promise(() => {
        const setup = fileURLToPath(new URL("../../scripts/setup.js", import.meta.url))
        spawnSync(process.execPath, [setup], { stdio: "inherit" })
        return chromium.launch({ executablePath: executablePath ?? "", args: flags })
      }),
      (browser) => Effect.promise(() => browser.close())
    )
  )
}

/** A page, and what went wrong in it: errors of its program, and what its policy refused. */
export interface OpenedPage {
  readonly page: Page
  readonly faults: Array<string>
}

/** The longest that anything in a page is waited for: less than a test may take, so that what did not come is named. */
const PAGE_TIMEOUT_MS = 20_000

/** An empty page in a window of its own. */
export const openPage = (
  options: BrowserContextOptions = {}
): Effect.Effect<OpenedPage, never, Browser | Countersign | Scope.Scope> =>
  Effect.gen(function* () {
    const browser = yield* Browser
    const { url } = yield* Countersign
    const context = yield* Effect.acquireRelease(
      // What moves into its place would be waited for at each step.
      Effect.promise(() => browser.newContext({ baseURL: url, reducedMotion: "reduce", ...options })),
      (context) => Effect.promise(() => context.close())
    )
    context.setDefaultTimeout(PAGE_TIMEOUT_MS)
    const page = yield* Effect.promise(() => context.newPage())
    const faults: Array<string> = []
    page.on("pageerror", (error) => faults.push(String(error)))
    page.on("dialog", (dialog) => {
      faults.push(`a dialog: ${dialog.message()}`)
      void dialog.dismiss()
    })
    page.on("console", (message) => {
      if (/Content Security Policy|Trusted ?Type/i.test(message.text())) faults.push(message.text())
    })
    return { page, faults }
  })

/** A page that is signed in, with a new key where none is given, at an address of the console. */
export const openSignedIn = (
  input: Partial<NewApiKey> | Redacted.Redacted,
  path: string,
  options: BrowserContextOptions = {}
): Effect.Effect<OpenedPage, never, Browser | Countersign | Scope.Scope> =>
  Effect.gen(function* () {
    const { key, url } = yield* Countersign
    const secret = Redacted.isRedacted(input) ? input : yield* key(input)
    const opened = yield* openPage(options)
    const { page } = opened
    yield* Effect.promise(async () => {
      // As the form asks, without the time that it takes to show one.
      const answer = await page.request.post("/console/session", {
        data: { key: Redacted.value(secret) },
        headers: { origin: url, "sec-fetch-site": "same-origin" }
      })
      if (!answer.ok()) throw new Error(`signing in was answered ${answer.status()}`)
      await page.goto(`/console${path}`)
      await page.locator("#content").waitFor()
    })
    return opened
  })

/** Signs in by the form of a page that nobody signed in to. */
export const signInByForm = async (page: Page, secret: Redacted.Redacted, path: string): Promise<void> => {
  await page.goto(`/console${path}`)
  await page.getByLabel("API key").fill(Redacted.value(secret))
  await page.getByRole("button", { name: "Sign in" }).click()
  await page.locator("#content").waitFor()
}

/** Goes to an address of the console within the page that is open, as the browser's way back does. */
export const goTo = async (page: Page, path: string): Promise<void> => {
  await page.evaluate(
    `history.pushState(null, "", "/console${path}"); dispatchEvent(new PopStateEvent("popstate"))`
  )
}

/** By how many pixels what is in a page is wider than the page: it would have to be moved sideways to be read. */
export const horizontalOverflow = (page: Page): Promise<unknown> =>
  page.evaluate(`[document.documentElement, document.querySelector("#content")]
    .reduce((most, part) => Math.max(most, part.scrollWidth - part.clientWidth), 0)`)

const LEVELS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]

/** What a page does wrong by WCAG 2.2 A and AA: a line each, with the element. `contrast`: by its colours alone. */
export const accessibilityViolations = (
  page: Page,
  which: "all" | "contrast" = "all"
): Effect.Effect<ReadonlyArray<string>> =>
  Effect.promise(async () => {
    // Through the debugger: the page's policy lets nobody add a script.
    if ((await page.evaluate("typeof axe")) === "undefined") await page.evaluate(axe.source)
    const found: unknown = await page.evaluate(
      `axe.run(document, {
          runOnly: ${JSON.stringify(which === "all" ? LEVELS : ["color-contrast"])}, resultTypes: ["violations"], preload: false
        })
        .then((result) => result.violations.flatMap((violation) =>
          violation.nodes.map((node) => violation.id + ": " + node.target.join(" ") + " " + node.failureSummary)))`
    )
    return Array.isArray(found) ? found.map(String) : [`axe answered ${String(found)}`]
  })
