/** Tests in Firefox, driven through WebDriver BiDi: Playwright drives only a Firefox of its own. */
import type { Vitest } from "@effect/vitest"
import { Context, Effect, Layer, type Scope } from "effect"
import { existsSync } from "node:fs"
import { setTimeout } from "node:timers/promises"
import { type Browser, type ElementHandle, launch, type Page } from "puppeteer-core"
import { setup } from "../../scripts/setup.js"
import { Countersign } from "../../src/testing/index.ts"

const executablePath = [
  process.env["COUNTERSIGN_TEST_FIREFOX"] ?? "",
  "/usr/bin/firefox-esr",
  "/usr/bin/firefox",
  "/Applications/Firefox.app/Contents/MacOS/firefox"
].find((path) => path !== "" && existsSync(path))

if (executablePath === undefined) {
  process.stderr.write(
    "Skipping the console's tests in Firefox: no Firefox found. " +
      "Install Debian's `firefox-esr` or set COUNTERSIGN_TEST_FIREFOX to an executable.\n"
  )
}

/** `it.effect`, or its skipped form if there is no Firefox. The reason is printed once per test file. */
export const skipWithoutFirefox = <R>(it: Vitest.MethodsNonLive<R>) =>
  it.effect.skipIf(executablePath === undefined)

/** The timeout of every wait in a page. Shorter than a test's timeout, so that a failure names the missing element. */
const PAGE_TIMEOUT_MS = 60_000

/** A Firefox per test file. Building the layer also builds the console page, as starting the service does. */
export class Firefox extends Context.Service<Firefox, Browser>()("countersign/test/Firefox") {
  static readonly layer = Layer.effect(
    Firefox,
    Effect.acquireRelease(
      Effect.promise(() => {
        setup()
        return launch({
          browser: "firefox",
          executablePath: executablePath ?? "",
          headless: true,
          extraPrefsFirefox: { "ui.prefersReducedMotion": 1, "browser.aboutwelcome.enabled": false }
        })
      }),
      (browser) => Effect.promise(() => browser.close())
    )
  )
}

/** A page, and its uncaught errors and Content Security Policy violations. */
export interface FirefoxPage {
  readonly page: Page
  readonly pageErrors: Array<string>
  /** Waits until an element matches the selector. `aria/Sign in` matches by accessible name. */
  readonly find: (selector: string) => Promise<ElementHandle>
}

/** Opens a path of the console in a browser context of its own, signed out. */
export const openInFirefox = (
  path: string
): Effect.Effect<FirefoxPage, never, Firefox | Countersign | Scope.Scope> =>
  Effect.gen(function* () {
    const browser = yield* Firefox
    const { url } = yield* Countersign
    const context = yield* Effect.acquireRelease(
      Effect.promise(() => browser.createBrowserContext()),
      (context) => Effect.promise(() => context.close())
    )
    const page = yield* Effect.promise(() => context.newPage())
    const pageErrors: Array<string> = []
    // Firefox reports violations of the Content Security Policy as errors, too.
    page.on("pageerror", (error) => pageErrors.push(String(error)))
    yield* Effect.promise(() => page.goto(`${url}/console${path}`))
    // The waits of Puppeteer evaluate text in the page, which the console's Content Security Policy blocks.
    const find = async (selector: string): Promise<ElementHandle> => {
      const end = Date.now() + PAGE_TIMEOUT_MS
      // A document that is replaced while Firefox searches it is an error there, and the next one may have the element.
      let cause: unknown
      while (Date.now() < end) {
        const found = await page.$(selector).catch((error: unknown) => {
          cause = error
          return null
        })
        if (found !== null) return found
        await setTimeout(50)
      }
      throw new Error(`Not found in the page: ${selector}`, { cause })
    }
    return { page, pageErrors, find }
  })
