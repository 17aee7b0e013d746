import type { Vitest } from "@effect/vitest"
import axe from "axe-core"
import { Context, Effect, Layer, Redacted, type Scope } from "effect"
import { existsSync } from "node:fs"
import { type Browser as Chromium, type BrowserContextOptions, chromium, type Page } from "playwright-core"
import { PAGE_HEADER } from "../../src/api/console/pageToken.ts"
import type { NewApiKey } from "../../src/api/ApiKeys.ts"
import { setup } from "../../scripts/setup.js"
import { Countersign } from "../../src/testing/index.ts"

/** The usual paths of a Chromium executable. The headless shell is the same browser at three fifths of the processor time. */
const candidates = [
  process.env["COUNTERSIGN_TEST_BROWSER"] ?? "",
  "/usr/bin/chromium-headless-shell",
  "/usr/bin/chromium",
  "/usr/bin/chromium-browser",
  "/usr/bin/google-chrome",
  "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
]

const executablePath = candidates.find((place) => place !== "" && existsSync(place))

/** Why browser tests are skipped; undefined if a browser was found. */
const skipReason: string | undefined =
  executablePath === undefined
    ? "Skipping the console's browser tests: no Chromium found. " +
      "Install Debian's `chromium-headless-shell` or `chromium`, or set COUNTERSIGN_TEST_BROWSER to an executable."
    : undefined

if (skipReason !== undefined) process.stderr.write(`${skipReason}\n`)

/** `it.effect`, or its skipped form if there is no browser. The reason is printed once per test file. */
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

/** A browser per test file. Building the layer also builds the console page, as starting the service does. */
export class Browser extends Context.Service<Browser, Chromium>()("countersign/test/Browser") {
  static readonly layer = Layer.effect(
    Browser,
    Effect.acquireRelease(
      Effect.promise(() => {
        setup()
        return chromium.launch({ executablePath: executablePath ?? "", args: flags })
      }),
      (browser) => Effect.promise(() => browser.close())
    )
  )
}

/** A page, and its uncaught errors, unexpected dialogs and Content Security Policy violations. */
export interface OpenedPage {
  readonly page: Page
  readonly pageErrors: Array<string>
}

/** The timeout of every wait in a page. Shorter than a test's timeout, so that a failure names the missing element. */
const PAGE_TIMEOUT_MS = 60_000

/** Opens an empty page in a new browser context. */
export const openPage = (
  options: BrowserContextOptions = {}
): Effect.Effect<OpenedPage, never, Browser | Countersign | Scope.Scope> =>
  Effect.gen(function* () {
    const browser = yield* Browser
    const { url } = yield* Countersign
    const context = yield* Effect.acquireRelease(
      // Playwright waits for animations to end before each action.
      Effect.promise(() => browser.newContext({ baseURL: url, reducedMotion: "reduce", ...options })),
      (context) => Effect.promise(() => context.close())
    )
    context.setDefaultTimeout(PAGE_TIMEOUT_MS)
    const page = yield* Effect.promise(() => context.newPage())
    const pageErrors: Array<string> = []
    page.on("pageerror", (error) => pageErrors.push(String(error)))
    page.on("dialog", (dialog) => {
      pageErrors.push(`a dialog: ${dialog.message()}`)
      void dialog.dismiss()
    })
    page.on("console", (message) => {
      if (/Content Security Policy|Trusted ?Type/i.test(message.text())) pageErrors.push(message.text())
    })
    return { page, pageErrors }
  })

/** Opens a path of the console, signed in with the given API key or with a new one. */
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
      await page.goto("/healthz")
      await signInBy(page, url, secret)
      await page.goto(`/console${path}`)
      await page.locator("#content").waitFor()
    })
    return opened
  })

/** Signs the browser of a page of the service in: sends the request of the sign-in form without rendering the form. */
export const signInBy = async (page: Page, url: string, secret: Redacted.Redacted): Promise<void> => {
  // Ends the session that the browser was signed in with.
  const before = await page.evaluate(() => localStorage.getItem("countersign.page"))
  const answer = await page.request.post("/console/session", {
    data: { key: Redacted.value(secret) },
    headers: {
      origin: url,
      "sec-fetch-site": "same-origin",
      ...(before === null ? {} : { [PAGE_HEADER]: before })
    }
  })
  if (!answer.ok()) throw new Error(`Signing in failed with status ${answer.status()}`)
  const part = answer.headers()[PAGE_HEADER] ?? ""
  await page.evaluate((token) => localStorage.setItem("countersign.page", token), part)
}

/** Signs in with the form of a signed-out page. */
export const signInByForm = async (page: Page, secret: Redacted.Redacted, path: string): Promise<void> => {
  await page.goto(`/console${path}`)
  await page.getByLabel("API key").fill(Redacted.value(secret))
  await page.getByRole("button", { name: "Sign in" }).click()
  await page.locator("#content").waitFor()
}

/** Checks or unchecks an action in the filter of the audit log, by the phrase of its entries. */
export const toggleAuditAction = async (page: Page, phrase: string): Promise<void> => {
  const filter = page.locator(".dropdown")
  await filter.locator("> summary").click()
  await filter.getByRole("checkbox", { name: phrase, exact: true }).click()
  await filter.locator("> summary").click()
}

/** Navigates within the open page to a path of the console, without reloading the page. */
export const goTo = async (page: Page, path: string): Promise<void> => {
  await page.evaluate(
    `history.pushState(null, "", "/console${path}"); dispatchEvent(new PopStateEvent("popstate"))`
  )
}

/**
 * From now on no timer of a page ends that takes this time or longer: nothing happens because a machine is slow. Returns a function that lets
 * later timers end again.
 */
export const holdTimers = async (page: Page, shortestMillis: number): Promise<() => Promise<void>> => {
  await page.evaluate((shortest) => {
    const start = globalThis.setTimeout
    const longest = 2 ** 31 - 1
    const setTimeout = (callback: () => void, millis = 0) =>
      start(callback, millis < shortest ? millis : longest)
    Object.assign(globalThis, {
      setTimeout,
      releaseTimers: () => Object.assign(globalThis, { setTimeout: start })
    })
  }, shortestMillis)
  return () =>
    page.evaluate(() => {
      const release: unknown = Reflect.get(globalThis, "releaseTimers")
      if (typeof release === "function") Reflect.apply(release, undefined, [])
    })
}

/** Holds the next request of a page to an address. `asked` resolves once it was made; `answer` lets it go on. */
export const holdRequest = async (page: Page, address: string | RegExp) => {
  const asked = Promise.withResolvers<void>()
  const answered = Promise.withResolvers<void>()
  await page.route(
    address,
    async (route) => {
      asked.resolve()
      await answered.promise
      await route.continue()
    },
    { times: 1 }
  )
  return { asked: asked.promise, answer: () => answered.resolve() }
}

/** The number of pixels by which a page's content is wider than the page; 0 if it needs no horizontal scrolling. */
export const horizontalOverflow = (page: Page): Promise<unknown> =>
  page.evaluate(`[document.documentElement, document.querySelector("#content")]
    .reduce((most, part) => Math.max(most, part.scrollWidth - part.clientWidth), 0)`)

const LEVELS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]

const RULES = { contrast: ["color-contrast"], headings: ["heading-order", "page-has-heading-one"] }

/**
 * The page's violations of WCAG 2.2 A and AA, a line per element. `contrast` checks colour contrast only, `headings` the levels of
 * headings, which WCAG only recommends.
 */
export const accessibilityViolations = (
  page: Page,
  which: "all" | keyof typeof RULES = "all"
): Effect.Effect<ReadonlyArray<string>> =>
  Effect.promise(async () => {
    // `evaluate` goes through the debugger: the page's Content Security Policy blocks added scripts.
    if ((await page.evaluate("typeof axe")) === "undefined") await page.evaluate(axe.source)
    const found: unknown = await page.evaluate(
      `axe.run(document, {
          runOnly: ${JSON.stringify(which === "all" ? LEVELS : RULES[which])}, resultTypes: ["violations"], preload: false
        })
        .then((result) => result.violations.flatMap((violation) =>
          violation.nodes.map((node) => violation.id + ": " + node.target.join(" ") + " " + node.failureSummary)))`
    )
    return Array.isArray(found) ? found.map(String) : [`axe returned ${String(found)}`]
  })
